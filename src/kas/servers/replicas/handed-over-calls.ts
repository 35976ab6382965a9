import { type Metadata, noMetadata, type Reply } from '../../../call/call.ts'
import { payerOf } from '../../../call/caller.ts'
import { KnownMessages } from '../../../call/known-messages.ts'
import { type RpcSpan, traceHandler } from '../../../call/rpc-span.ts'
import { Deadline, within } from '../../../lib/deadline.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { type CallHandler, type ServedCall, ServerLanes } from '../../../proto/grpc/server-lane.ts'
import type { ServerStream } from '../../../proto/grpc/server-stream.ts'
import type { WindowBudget } from '../../../proto/grpc/window-budget.ts'
import { ReplicaMemory } from '../../memory/replica-memory.ts'
import { maxWideBytesPerAgent, UnreadByAgent } from '../../memory/unread-by-agent.ts'
import { type HandOver, readHandOver, tunnelKey, withoutOwnKeys, writeError } from '../../peers/hand-over-metadata.ts'
import type { Tunnel } from '../../tunnels/tunnel.ts'
import type { TunnelRegistry } from '../../tunnels/tunnel-registry.ts'
import type { TunnelRequest } from '../../tunnels/tunnel-shares.ts'

/** Time for `go` after `ready`: an entry decides at once, or has failed; then the tunnel is free again. ms */
const decisionTimeoutMs = 3000
/** Messages of an eager call, which come with its head. */
const maxEagerMessages = 16
/** The reply of an eager call means `ready`; if it takes longer than this, `ready` is sent. ms */
const promptReplyMs = 20

const none: Metadata = { [tunnelKey]: ['none'] }
const refused: Metadata = { [tunnelKey]: ['refused'] }
const readySign: Metadata = { [tunnelKey]: ['ready'] }

export interface HandedOverComponents {
  readonly tunnels: TunnelRegistry
  /** absent: a budget of its own */
  readonly memory?: ReplicaMemory
  readonly tracer: Tracer
}

/** Serves calls that peers hand over. Uses only this replica's tunnels: a call is never handed over twice. */
export class HandedOverCalls {
  readonly serve: CallHandler
  readonly #lanes = new ServerLanes()
  readonly #tunnels: TunnelRegistry
  readonly #memory: ReplicaMemory
  readonly #unreadByAgent: UnreadByAgent
  readonly #closing = new AbortController()

  constructor({ tunnels, memory = new ReplicaMemory(), tracer }: HandedOverComponents) {
    this.#memory = memory
    this.#unreadByAgent = new UnreadByAgent(memory, { maxWideBytes: maxWideBytesPerAgent })
    this.#tunnels = tunnels
    this.serve = (stream) => traceHandler(tracer, stream, (span) => this.#serve(stream, span))
  }

  /** Budget of wide windows of all connections: their streams carry many agents. */
  get windows(): WindowBudget {
    return this.#unreadByAgent.windows
  }

  /** Serves a lane, and each call on it with `serve`. */
  serveLane(stream: ServerStream, serve: CallHandler): Promise<void> {
    return this.#lanes.serve(stream, serve)
  }

  /** Takes no new calls: waiting and new ones are answered `none`. Lanes end after their running calls. */
  close(): void {
    this.#closing.abort()
    this.#lanes.close()
  }

  async #serve(stream: ServedCall, span: RpcSpan): Promise<Metadata> {
    const handOver = readHandOver(stream.metadata)
    const { agentId, eager, caller, isWatch, isLog } = handOver
    span.calls(agentId)
    const own = this.#unreadByAgent.enter(agentId)
    stream.onClosed(() => own.leave())
    stream.chargeTo(own.unread, payerOf(caller))
    this.#expectAnswer(stream, handOver)
    const tunnel = await this.#find(stream, handOver)
    if (!tunnel) return none
    let messages: AsyncIterable<Uint8Array> = stream.messages
    try {
      if (eager) messages = await allOf(stream)
      else {
        stream.sendInterim(readySign)
        await decided(stream)
      }
      stream.signal.throwIfAborted()
      if (tunnel.state !== 'taken') throw notUsed() // lost meanwhile; after `ready` only an error can report that
    } catch (error) {
      this.#tunnels.giveBack(agentId, tunnel)
      if (eager) stream.addTrailers(readySign)
      if (error instanceof KasError) stream.addTrailers(writeError(error))
      throw error
    }
    const metadata = withoutOwnKeys(stream.metadata)
    const call = {
      agentId,
      method: stream.method,
      metadata: span.metadata(metadata),
      messages,
      safety: 'unsafe' as const, // the entry decides what may be repeated
      caller,
      isWatch,
      isLog,
      signal: stream.signal,
    }
    return sendReply(stream, tunnel.forward(call), eager)
  }

  /** Reserves memory for the answer, before the agent is called. @throws KasError REPLICA_MEMORY_FULL (`refused`) */
  #expectAnswer(stream: ServedCall, { agentId, caller }: HandOver): void {
    try {
      this.#memory.expectAnswer(agentId, payerOf(caller))
    } catch (error) {
      stream.addTrailers({ ...refused, ...writeError(KasError.from(error)) })
      throw error
    }
  }

  async #find(stream: ServedCall, { waitMs, ...handOver }: HandOver): Promise<Tunnel | undefined> {
    const { method, signal } = stream
    const request: TunnelRequest = { ...handOver, method }
    if (this.#closing.signal.aborted) return undefined
    const tunnel = this.#tunnels.take(request)
    if (tunnel || waitMs === 0) return tunnel // an agent may just be between two tunnels, or two connections
    const deadline = new Deadline({ ms: waitMs, signals: [signal, this.#closing.signal] })
    try {
      for (;;) {
        const next = await this.#tunnels.wait(request, deadline.signal)
        if (next.state === 'taken') return next
      }
    } catch (error) {
      signal.throwIfAborted()
      if (deadline.signal.aborted) return undefined
      if (error instanceof KasError && error.code === 'CALLER_OVER_SHARE')
        stream.addTrailers({ ...refused, ...writeError(error) })
      throw error
    } finally {
      deadline.end()
    }
  }
}

/** Waits for `go`: until then nothing is sent to the agent, and the tunnel can go back unused. */
async function decided({ messages }: ServedCall): Promise<void> {
  const message = messages.take() ?? (await inTime(messages.next())).value
  if (message?.length !== 0)
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'a hand-over that begins without go' })
}

/** Collects the messages that came with the call, to send them to the agent in one write. */
async function allOf({ messages }: ServedCall): Promise<KnownMessages> {
  const all: Uint8Array[] = []
  const add = (message: Uint8Array) => {
    if (all.push(message) > maxEagerMessages)
      throw new KasError({ code: 'INVALID_MESSAGE', detail: `an eager call of more than ${maxEagerMessages} messages` })
  }
  for (let next = messages.take(); next; next = messages.take()) add(next)
  if (!messages.isRead) await inTime(addRest(messages, add))
  return new KnownMessages(all)
}

async function addRest(messages: AsyncIterable<Uint8Array>, add: (message: Uint8Array) => void): Promise<void> {
  for await (const message of messages) add(message)
}

/** Waits. @throws KasError TUNNEL_LOST (delivery none): the entry did not decide in time */
function inTime<T>(wait: Promise<T>): Promise<T> {
  return within(wait, { ms: decisionTimeoutMs, reason: notUsed })
}

/** Error of a call of which nothing was sent to the agent. */
function notUsed(): KasError {
  return new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
}

async function sendReply(stream: ServedCall, reply: Reply, eager: boolean): Promise<Metadata> {
  const late = eager ? setTimeout(() => stream.sendInterim(readySign), promptReplyMs) : undefined
  const metadata = await reply.metadata
  clearTimeout(late)
  if (metadata) stream.sendMetadata(withoutOwnKeys(metadata))
  else if (eager) stream.addTrailers(readySign)
  for await (const message of reply.messages) {
    const full = stream.send(message)
    if (full) await full
  }
  const { error, trailers } = await reply.done
  // keys of replicas first: the agent's trailers may fill the remaining room
  stream.addTrailers({ ...(error ? writeError(error) : {}), ...withoutOwnKeys(trailers) })
  if (error) throw error
  return noMetadata
}
