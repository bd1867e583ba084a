export { RunControl, cancelChat } from "./control.js";
export { ExactNumber, type Json, type JsonObject, isContainer, parse, stringify } from "./exact.js";
export { type FollowOptions, follow } from "./follow.js";
export type { Following } from "./following.js";
export type { RunMessage, RunSummary } from "./messages.js";
export { ConnectionLost, type Credentials, HTTPError, type Limits } from "./open.js";
export { PartialValue, PatchError, applyPatch } from "./patch.js";
export type * from "./records.js";
export {
  type Approval, type Block, Call, type CallOf, type CallPhase, type Gap, type OnAppend, type RestartNote, RunReader, type SubRun, TextBlock, Turn, phaseOf,
} from "./run.js";
export { type CallState, type RunState, Snapshots, type TextState, type TurnState } from "./snapshot.js";
export { MessageTooLong, SSEDecoder, type SSEMessage } from "./sse.js";
export { type StartOptions, startRun } from "./start.js";
export { type Connection, type FollowedRun, type RunSource, RunStore } from "./store.js";
export { GrowingText } from "./text.js";
export type { AnyTools, Growing, OtherName } from "./tools.js";
