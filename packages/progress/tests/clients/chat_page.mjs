// A chat of the AI SDK as a page has it: `useChat`, approvals in its own way, messages that survive a reload.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai7";
import { createElement as h, useEffect } from "react";
import { createRoot } from "react-dom/client";

window.errors = [];

function App() {
  const chat = useChat({
    id: "chat-1",
    messages: JSON.parse(localStorage.getItem("messages") ?? "[]"),
    transport: new DefaultChatTransport({ api: "/api/chat" }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onError: (error) => window.errors.push(String(error)),
  });
  useEffect(() => localStorage.setItem("messages", JSON.stringify(chat.messages)), [chat.messages]);
  const answer = (part, approved) => () => chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: approved ? undefined : "Too much." });
  return [
    h("p", { id: "status", key: "status" }, chat.status),
    h("button", { id: "send", key: "send", onClick: () => chat.sendMessage({ text: "Pay." }) }, "Send"),
    h("button", { id: "edit", key: "edit", onClick: () => chat.sendMessage({ text: "Pay less.", messageId: chat.messages[0].id }) }, "Edit"),
    h("ol", { key: "messages" }, chat.messages.map((message) =>
      h("li", { key: message.id, "data-role": message.role }, message.parts.map((part, place) =>
        part.type === "text" ? h("p", { key: place }, part.text)
          : part.type === "dynamic-tool" && h("section", { key: place, "data-state": part.state },
            h("pre", null, JSON.stringify(part.input)),
            h("output", null, String(part.output ?? "")),
            part.state === "approval-requested" && [
              h("button", { className: "approve", key: "approve", onClick: answer(part, true) }, "Approve"),
              h("button", { className: "deny", key: "deny", onClick: answer(part, false) }, "Deny")]))))),
  ];
}

createRoot(document.getElementById("root")).render(h(App));
