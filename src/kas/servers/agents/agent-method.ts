import type { Metadata } from '../../../call/call.ts'
import type { ServerStream } from '../../../proto/grpc/server-session.ts'
import type { Agent } from '../../agent.ts'

/** Serves one call of an agent, who is known. `retired` aborts when polling streams should end with OK. */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without trailers returns nothing
export type AgentHandler = (agent: Agent, stream: ServerStream, retired: AbortSignal) => Promise<Metadata | void>

/** A method of 8150; a streaming one stays open while the directory is out of reach. */
export interface AgentMethod {
  readonly streaming: boolean
  readonly serve: AgentHandler
}
