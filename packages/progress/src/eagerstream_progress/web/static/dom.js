// Elements from descriptions. A description is drawn repeatedly. Only differences change elements, so that focus,
// selections and scroll positions stay. Text is always set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path"]);
const PROPS = Symbol("props");
const KEY = Symbol("key");

// `props`: attributes by name (null omits one; true and false set or omit it, except in data-*), and
//   key      identifies the element among its siblings, wherever it moves
//   version  the element stays unchanged while this is the same
//   style    CSS properties by name, set one by one: the page's policy allows no style attribute
//   on       event handlers by event
//   pin      keeps it scrolled to its end, unless the user has scrolled away
//   drawn    called with the element after its children were drawn
// `children`: descriptions, strings, and null or false for omitted ones; or a function that returns them, called only
// when the element is drawn.
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children };
}

export const caret = () => h("span", { class: "caret", "aria-hidden": "true" });

export function sync(parent, children) {
  const wanted = flat(children);
  const keys = new Set(wanted.map((child) => child.props?.key));
  const kept = new Map();
  for (const node of [...parent.childNodes]) {
    if (node[KEY] === undefined) continue;
    if (keys.has(node[KEY])) kept.set(node[KEY], node);
    else node.remove(); // first, so that later nodes need not move
  }
  let next = parent.firstChild;
  for (const child of wanted) {
    const isText = typeof child !== "object";
    const key = isText ? undefined : child.props.key;
    let node = next;
    if (key !== undefined) {
      node = kept.get(key);
      kept.delete(key);
    } else if (next && (next[KEY] !== undefined || !fits(next, child, isText))) node = null;
    if (node && !fits(node, child, isText)) node = null;
    node ??= isText ? document.createTextNode("") : create(child.tag);
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
    if (isText) {
      const text = String(child);
      if (node.data !== text) node.data = text;
    } else update(node, child);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

function fits(node, child, isText) {
  return isText ? node.nodeType === Node.TEXT_NODE : node.nodeType === Node.ELEMENT_NODE && node.localName === child.tag;
}

function create(tag) {
  return SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
}

function update(element, { props, children }) {
  const old = element[PROPS] ?? {};
  if (props.version !== undefined && props.version === old.version) return;
  element[PROPS] = props;
  element[KEY] = props.key;
  for (const name of Object.keys(old)) if (!(name in props)) setProp(element, name, null, old[name]);
  for (const name of Object.keys(props)) setProp(element, name, props[name], old[name]);
  const atEnd = props.pin && element.scrollHeight - element.scrollTop - element.clientHeight < 24;
  sync(element, typeof children[0] === "function" ? [children[0]()] : children);
  if (atEnd) element.scrollTop = element.scrollHeight;
  props.drawn?.(element);
}

function setProp(element, name, value, old) {
  switch (name) {
    case "key":
    case "version":
    case "pin":
    case "drawn":
      break;
    case "style":
      for (const property of Object.keys(old ?? {})) if (!(property in (value ?? {}))) element.style.removeProperty(property);
      for (const [property, text] of Object.entries(value ?? {}))
        if (old?.[property] !== text) element.style.setProperty(property, text);
      break;
    case "on":
      for (const event of Object.keys(old ?? {})) if (!(event in (value ?? {}))) element[`on${event}`] = null;
      for (const [event, handler] of Object.entries(value ?? {})) element[`on${event}`] = handler;
      break;
    default:
      if (value === old) break;
      if (value === null || value === undefined || (value === false && !name.startsWith("data-"))) element.removeAttribute(name);
      else element.setAttribute(name, value === true && !name.startsWith("data-") ? "" : value);
  }
}
