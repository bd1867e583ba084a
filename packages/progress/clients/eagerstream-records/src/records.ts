// Generated from record.schema.json by scripts/types.mjs. Do not edit.

import type { Json, JsonObject } from "./exact.js";

/** A person is asked whether a call may run. */
export interface ApprovalStartRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "approval_start";
  /** The number of the call's block in the run. */
  readonly block: number;
}

/** The person decided, or the call no longer waits for a decision. */
export interface ApprovalStopRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "approval_stop";
  /** The number of the call's block in the run. */
  readonly block: number;
  /** True if the call may run. */
  readonly approved: boolean;
  /** The reason that was given, or null. */
  readonly reason: string | null;
}

/** A block starts that is not a tool call. */
export interface BlockStartRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "block_start";
  /** The number of the block in the run. */
  readonly block: number;
  /** The index of the block in the message. */
  readonly index: number;
  /** The API's type of the block. */
  readonly kind: string;
}

/** A block is complete. */
export interface BlockStopRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "block_stop";
  /** The number of the block in the run. */
  readonly block: number;
  /** The block in the API's form, without the text or thinking that came as deltas. */
  readonly content: JsonObject;
}

/** The text around an edit in its file. */
export interface EditContext {
  /** The lines before those that change, each with its end. */
  readonly before: string;
  /** The part of the first line that changes which is before the edit. */
  readonly head: string;
  /** The part of the last line that changes which is behind the edit. Null if there is no such line: complete lines are inserted, or the edit is at the end of the file. */
  readonly tail: string | null;
  /** The lines after those that change, each with its end. */
  readonly after: string;
}

/** A call edits a text file, as its tool says while the input is written. A call may have several.
 * 
 * The texts themselves are in the input. Pointers are JSON pointers (RFC 6901) in it. */
export interface EditRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "edit";
  /** The number of the call's block in the run. */
  readonly block: number;
  /** The file, as people may see it. Of a very long one, the end. */
  readonly path: string;
  /** The pointer of the new text. */
  readonly new: string;
  /** The pointer of the text that is replaced, or null if there is none. */
  readonly old: string | null;
  /** The number of the first line of the context, from 1. Null if the place in the file is not known. */
  readonly line: number | null;
  /** The number of lines of the file if the new text replaces all of it; else null. */
  readonly replaced_lines: number | null;
  /** The text around the edit, or null if the place is not known or the text is no longer kept. */
  readonly context: EditContext | null;
}

/** An error. */
export interface Fault {
  /** The class of the error. */
  readonly type: string;
  /** The message of the error. */
  readonly text: string;
}

/** More of a tool's input. */
export interface InputDeltaRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  /** The number of the block in the run. */
  readonly block: number;
  /** `seq` of the last merged delta. `seq` itself is the number of the first. */
  readonly to_seq?: number;
  /** `at_s` of the last merged delta. `at_s` itself is the time of the first. */
  readonly to_s?: number;
  /** Number of fragments, if they are several. */
  readonly count?: number;
  /** Number of characters that are no longer kept. The record then has no text and no patch. */
  readonly omitted_chars?: number;
  readonly type: "input_delta";
  /** JSON text, as it was sent, of one fragment or several. */
  readonly fragment: string;
  /** The changes to the best-effort value, to be applied in order. See `eagerstream_wire.PatchOp`. */
  readonly patch: readonly PatchOp[];
  /** Names of the input's fields that were finished. */
  readonly finished: readonly string[];
}

/** A tool call starts. */
export interface InputStartRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "input_start";
  /** The number of the block in the run. */
  readonly block: number;
  /** The index of the block in the message. */
  readonly index: number;
  /** The API's id of the call. */
  readonly id: string;
  /** The tool. */
  readonly name: string;
  /** `tool_use`, `server_tool_use` or `mcp_tool_use`. */
  readonly kind: string;
  /** The complete input, if it came at the start and no deltas follow; else null. */
  readonly input: JsonObject | null;
}

/** The input of a tool call ends. */
export interface InputStopRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "input_stop";
  /** The number of the block in the run. */
  readonly block: number;
  /** `incomplete` if the input was cut. */
  readonly outcome: "valid" | "invalid" | "incomplete";
  /** The reason why the input is not valid, or null. */
  readonly error: string | null;
}

/** A response starts. */
export interface MessageStartRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "message_start";
  /** The API's id of the message. */
  readonly id: string;
  /** The model that responds. */
  readonly model: string;
  /** If true, all blocks of the turn so far are void. */
  readonly restarted: boolean;
}

/** A response is complete. */
export interface MessageStopRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "message_stop";
  /** The API's stop reason, or null. */
  readonly stop_reason: string | null;
  /** Token counts in the API's form. */
  readonly usage: JsonObject;
}

/** One operation of a patch. */
export interface PatchOp {
  readonly op: "add" | "replace" | "append";
  readonly path: string;
  readonly value: Json;
}

/** The API says that it is alive while the model writes nothing; at most one each second is recorded. */
export interface PingRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "ping";
}

/** All blocks of the turn are void. The same request is sent again. */
export interface RestartedRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "restarted";
  /** The number of the turn, from 1. */
  readonly turn: number;
  /** The reason for the restart. */
  readonly reason: string;
  /** Seconds until the request is sent again. */
  readonly delay_s: number;
  /** The error that led to the restart, or null. */
  readonly error: Fault | null;
}

/** Another process continues the run, or the same one later. Whatever was under way before is cut.
 * 
 * The times of the records leave the gap out. A later record may be about the same turn again. */
export interface RunResumedRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "run_resumed";
  /** The time at which the run continues, RFC 3339, in UTC. */
  readonly started_at: string;
  /** Seconds since the last record before, by the clocks of both processes; null if these contradict. */
  readonly gap_s: number | null;
  /** Number of turns that had been settled, if it was known. */
  readonly resumed_after?: number;
}

/** The first record. */
export interface RunStartRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "run_start";
  /** The id of the run. */
  readonly run: string;
  /** The start of the run, RFC 3339, in UTC. */
  readonly started_at: string;
  /** A name for people, or null. */
  readonly name: string | null;
  /** The model that the run asks for, or null. */
  readonly model: string | null;
  /** If the run was resumed from a journal: number of turns of earlier processes. Their records have the same id of the run. The turns continue to count. */
  readonly resumed_after?: number;
}

/** The last record. */
export interface RunStopRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "run_stop";
  /** A value of `eagerstream.RunStatus`. */
  readonly status: string;
  /** Number of complete responses. */
  readonly turns: number;
  /** Token counts in the API's form. */
  readonly usage: JsonObject;
  /** The error that ended the run, or null. */
  readonly error: Fault | null;
  /** Number of violations of the protocol by the peer. Older records do not have it. */
  readonly violations?: number;
  /** The option whose bound has ended the run: `"max_turns"`, `"max_cost"`; absent if none has. */
  readonly limit?: string;
  /** The cost of the usage in the currency of the program; absent if the run does not count it. */
  readonly cost?: number;
}

/** The tool of a call starts a run of its own. */
export interface SubRunStartRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "sub_run_start";
  /** The number of the call's block in the run. */
  readonly block: number;
  /** The id of the new run, which its own records have, too. */
  readonly run: string;
  /** The model that the new run asks for. */
  readonly model: string;
}

/** A run that a tool started has ended, or its call has ended before it. */
export interface SubRunStopRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "sub_run_stop";
  /** The number of the call's block in the run. */
  readonly block: number;
  /** The id of the run that the tool started. */
  readonly run: string;
  /** A value of `eagerstream.RunStatus`; `running` if the call ended first. */
  readonly status: string;
  /** Number of its complete responses. */
  readonly turns: number;
  /** Its token counts in the API's form. Those in the `run_stop` of this run include them. */
  readonly usage: JsonObject;
}

/** More text. */
export interface TextDeltaRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  /** The number of the block in the run. */
  readonly block: number;
  /** `seq` of the last merged delta. `seq` itself is the number of the first. */
  readonly to_seq?: number;
  /** `at_s` of the last merged delta. `at_s` itself is the time of the first. */
  readonly to_s?: number;
  /** Number of fragments, if they are several. */
  readonly count?: number;
  /** Number of characters that are no longer kept. The record then has no text and no patch. */
  readonly omitted_chars?: number;
  readonly type: "text_delta";
  /** The new text. */
  readonly text: string;
}

/** More thinking. */
export interface ThinkingDeltaRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  /** The number of the block in the run. */
  readonly block: number;
  /** `seq` of the last merged delta. `seq` itself is the number of the first. */
  readonly to_seq?: number;
  /** `at_s` of the last merged delta. `at_s` itself is the time of the first. */
  readonly to_s?: number;
  /** Number of fragments, if they are several. */
  readonly count?: number;
  /** Number of characters that are no longer kept. The record then has no text and no patch. */
  readonly omitted_chars?: number;
  readonly type: "thinking_delta";
  /** The new thinking. */
  readonly thinking: string;
}

/** A running tool reports progress. */
export interface ToolProgressRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "tool_progress";
  /** The number of the call's block in the run. */
  readonly block: number;
  /** The reported value. A value without a JSON form is reported as text. */
  readonly value: Json;
}

/** A tool starts to run. A tool with streaming parameters starts before its input ends. */
export interface ToolStartRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "tool_start";
  /** The number of the call's block in the run. */
  readonly block: number;
}

/** A call has its result. A call that did not run has a result too. */
export interface ToolStopRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "tool_stop";
  /** The number of the call's block in the run. */
  readonly block: number;
  /** True if the tool ran. */
  readonly ran: boolean;
  /** True if the result reports an error. */
  readonly is_error: boolean;
  /** The result that the model gets: text, or content blocks. */
  readonly content: string | readonly JsonObject[];
  /** True if the input was not JSON, and the tool got a repaired one; absent otherwise. */
  readonly repaired?: boolean;
  /** True if the tool ran and was cancelled, or took too long; absent otherwise. */
  readonly cancelled?: boolean;
  /** The structured data of the result, for programs; absent if there is none, or if the log has no such data. */
  readonly data?: JsonObject;
}

/** A request is about to be sent. */
export interface TurnStartRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "turn_start";
  /** The number of the turn, from 1. */
  readonly turn: number;
}

/** A turn ends. */
export interface TurnStopRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "turn_stop";
  /** The number of the turn, from 1. */
  readonly turn: number;
  /** The error that interrupted the response, if the run continues after it; else null. */
  readonly error: Fault | null;
}

/** An event of the API that this version does not know. */
export interface UnknownRecord {
  /** The version of this format. */
  readonly v: 1 | 2;
  /** The number of the record. It rises from record to record, from 1. */
  readonly seq: number;
  /** Seconds since the start of the run. */
  readonly at_s: number;
  readonly type: "unknown";
  /** The event in the API's form. */
  readonly event: JsonObject;
}

/** From version 2 on, an integer beyond 2^53 - 1 in a value is written as {"$number": "digits"}, so that no reader rounds it. A key of the data that is $number, or that with more $ in front, has one $ more. */
export type RunRecord =
  | RunStartRecord
  | RunResumedRecord
  | TurnStartRecord
  | MessageStartRecord
  | BlockStartRecord
  | TextDeltaRecord
  | ThinkingDeltaRecord
  | InputDeltaRecord
  | BlockStopRecord
  | InputStartRecord
  | InputStopRecord
  | EditRecord
  | MessageStopRecord
  | ToolStartRecord
  | ToolProgressRecord
  | SubRunStartRecord
  | SubRunStopRecord
  | ApprovalStartRecord
  | ApprovalStopRecord
  | ToolStopRecord
  | TurnStopRecord
  | RestartedRecord
  | PingRecord
  | UnknownRecord
  | RunStopRecord;

/** The types of records that this version knows. */
export type RecordType = RunRecord["type"];
