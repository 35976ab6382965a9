import type { Call, Reply } from '../proto/call.ts'

/** A message in two pieces: a large payload is sent from where it lies, not copied behind its head. */
export class SplitMessage {
  readonly head: Uint8Array
  readonly payload: Uint8Array

  constructor(head: Uint8Array, payload: Uint8Array) {
    this.head = head
    this.payload = payload
  }
}

export interface ServeReply extends Omit<Reply, 'messages'> {
  readonly messages: AsyncIterable<Uint8Array | SplitMessage>
}

/** What serves a method here. Every Forward is one; a module that moves many bytes may split its messages. */
export type Serve = (call: Call) => Promise<ServeReply>
