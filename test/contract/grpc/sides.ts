import type { Metadata } from '../../../src/call/call.ts'

/** Interface of a gRPC implementation under test, as a client and as a server. */

export interface Status {
  readonly code: number
  readonly message: string
  readonly trailers: Metadata
}

export interface ClientCall {
  readonly metadata: Promise<Metadata | undefined>
  /** ends with the call, also with a failed one */
  readonly messages: AsyncIterable<Uint8Array>
  readonly done: Promise<Status>
  send(message: Uint8Array): Promise<void> | undefined
  end(): void
  cancel(): void
}

export interface Client {
  /** Opens a call on a connection that does not drain. Connects if there is none. */
  call(method: string, options?: { metadata?: Metadata; timeoutMs?: number }): Promise<ClientCall>
  close(): Promise<void>
}

export interface ServerCall {
  readonly metadata: Metadata
  readonly messages: AsyncIterable<Uint8Array>
  sendMetadata(metadata: Metadata): void
  send(message: Uint8Array): Promise<void> | undefined
  /** resolves when the caller leaves */
  readonly left: Promise<void>
}

/** Resolves with trailers, or throws a Failure. */
export type TestHandler = (call: ServerCall) => Promise<Metadata>

export class Failure extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

export interface Server {
  readonly port: number
  /** Sends GOAWAY on every connection. New connections are accepted. */
  goaway(): void
  close(): Promise<void>
}

export interface SideOptions {
  /** compresses messages if this side can */
  readonly gzip?: boolean
  /** removes this side's limit on sent messages, so that the other side's limit shows */
  readonly sendAnything?: boolean
}

/** One implementation. */
export interface Side {
  readonly name: string
  serve(handlers: Readonly<Record<string, TestHandler>>, options?: SideOptions): Promise<Server>
  connect(port: number, options?: SideOptions): Promise<Client>
}

export const bytes = (text: string) => new TextEncoder().encode(text)
export const text = (message: Uint8Array | undefined) => (message ? new TextDecoder().decode(message) : undefined)

export async function collect(messages: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const all: Uint8Array[] = []
  for await (const message of messages) all.push(message)
  return all
}
