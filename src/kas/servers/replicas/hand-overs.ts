import { KasError } from '../../../lib/errors.ts'
import { linkedController } from '../../../lib/signals.ts'
import { type Metadata, noMetadata } from '../../../proto/call.ts'
import type { Handler, ServerStream } from '../../../proto/grpc/server-session.ts'
import { type HandOver, readHandOver, tunnelKey, withoutOwnKeys, writeError } from '../../router/hand-over.ts'
import type { Tunnel } from '../../tunnels/tunnel.ts'
import type { Tunnels } from '../../tunnels/tunnels.ts'

/** A caller that was told `ready` and says nothing: its tunnel goes back. It decides at once, or it is gone. ms */
const decisionTimeoutMs = 3000
/** The reply of an eager call says `ready`, unless it comes later than this. ms */
const promptReplyMs = 20

const none: Metadata = { [tunnelKey]: ['none'] }
const readySign: Metadata = { [tunnelKey]: ['ready'] }

/** Serves calls that other replicas hand over. Only own tunnels are used: a call is never handed on again. */
export class HandOvers {
  readonly #tunnels: Tunnels
  readonly #closing = new AbortController()

  constructor(components: { tunnels: Tunnels }) {
    this.#tunnels = components.tunnels
  }

  /** No new calls: who waits, or comes, is told `none`. */
  close(): void {
    this.#closing.abort()
  }

  serve: Handler = async (stream) => {
    const handOver = readHandOver(stream.metadata)
    const { agentId, eager } = handOver
    const tunnel = await this.#find(stream, handOver)
    if (!tunnel) return none
    try {
      if (!eager) {
        stream.sendInterim(readySign)
        await decided(stream)
      }
      stream.signal.throwIfAborted()
      if (tunnel.state !== 'taken') throw notUsed() // lost meanwhile; after `ready` only an error says so
    } catch (error) {
      this.#tunnels.giveBack(agentId, tunnel)
      if (eager) stream.addTrailers(readySign)
      if (error instanceof KasError) stream.addTrailers(writeError(error))
      throw error
    }
    return carry(stream, tunnel, handOver)
  }

  async #find(stream: ServerStream, { agentId, waitMs }: HandOver): Promise<Tunnel | undefined> {
    const { method, signal } = stream
    if (this.#closing.signal.aborted) return undefined
    const tunnel = this.#tunnels.take(agentId, method)
    if (tunnel || waitMs === 0) return tunnel // an agent between two tunnels, or two connections, is not gone
    const controller = linkedController(signal, this.#closing.signal)
    const timer = setTimeout(() => controller.abort(), waitMs)
    try {
      for (;;) {
        const next = await this.#tunnels.wait(agentId, method, controller.signal)
        if (next.state === 'taken') return next
      }
    } catch (error) {
      signal.throwIfAborted()
      if (controller.signal.aborted) return undefined
      throw error
    } finally {
      clearTimeout(timer)
      controller.dispose()
    }
  }
}

/** Until `go` comes the agent has heard nothing, and the tunnel can go back unused. */
async function decided({ messages }: ServerStream): Promise<void> {
  const message = messages.take() ?? (await nextInTime(messages))
  if (message?.length !== 0)
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'a hand-over that begins without go' })
}

/** @returns undefined: the caller says no more */
async function nextInTime(messages: ServerStream['messages']): Promise<Uint8Array | undefined> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(notUsed()), decisionTimeoutMs)
  try {
    return (await Promise.race([messages.next(), late])).value
  } finally {
    clearTimeout(timer)
  }
}

/** Nothing has been sent to the agent. */
function notUsed(): KasError {
  return new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
}

async function carry(stream: ServerStream, tunnel: Tunnel, { agentId, eager }: HandOver): Promise<Metadata> {
  const reply = tunnel.forward({
    agentId,
    method: stream.method,
    metadata: withoutOwnKeys(stream.metadata),
    messages: stream.messages,
    safety: 'unsafe', // what may be repeated, the entry decides
    signal: stream.signal,
  })
  const late = eager ? setTimeout(() => stream.sendInterim(readySign), promptReplyMs) : undefined
  const metadata = await reply.metadata
  clearTimeout(late)
  if (metadata !== noMetadata) stream.sendMetadata(withoutOwnKeys(metadata))
  else if (eager) stream.addTrailers(readySign)
  for await (const message of reply.messages) {
    const full = stream.send(message)
    if (full) await full
  }
  const { error, trailers } = await reply.done
  stream.addTrailers(withoutOwnKeys(trailers))
  if (!error) return noMetadata
  stream.addTrailers(writeError(error))
  throw error
}
