import {
  type AgentId,
  type Forward,
  type Metadata,
  noMetadata,
  type Outcome,
  parseAgentId,
} from '../../../call/call.ts'
import { gitlabCaller } from '../../../call/caller.ts'
import type { RpcSpan } from '../../../call/rpc-span.ts'
import { type Delivery, KasError } from '../../../lib/errors.ts'
import { fitsBounds, maxMetadataBytes, maxMetadataValues } from '../../../proto/grpc/sendable.ts'
import { handOverKeys } from '../../peers/hand-over-metadata.ts'
import type { RailsCall } from './rails-call.ts'

/** Key that names the agent of a call, as a decimal (doc/reference/tunnel-protocol.md 4.2). */
const agentIdKey = 'kas-hop-routing-agent-id'

/** Services that agents are known to have: a call to one without an agent is malformed, not unknown. */
const agentServices = ['/gitlab.agent.kubernetes_api.rpc.KubernetesApi/']
/** Prefix of replicas' services: agents get no such call, whatever they claim to serve. */
const replicaPackages = '/kas.'

const deliveryKey = 'kas-delivery'
/** Keys between replicas, or of this hop alone: they go neither to the agent nor to GitLab. */
const hopKeys = new Set([...handOverKeys, deliveryKey])
/** Keys that stay at kas: `authorization` is GitLab's JWT. */
const notForAgents = new Set(['authorization', 'user-agent'])

/**
 * Forwards calls to the services of agents, as bytes: any method, unary or streaming
 * (doc/reference/tunnel-protocol.md 3 and 4.2).
 */
export class ForwardedCalls {
  readonly #forward: Forward
  readonly #onUnserved: (method: string) => void

  /** @param components.onUnserved - called for each call that neither kas nor an agent serves */
  constructor(components: { forward: Forward; onUnserved?: (method: string) => void }) {
    this.#forward = components.forward
    this.#onUnserved = components.onUnserved ?? (() => undefined)
  }

  /** Forwards a call. Never rejects; an error has the trailer `Kas-Delivery`: `none` or `maybe`. */
  async serve(call: RailsCall, span: RpcSpan): Promise<Outcome> {
    let delivery: Delivery = 'none'
    try {
      const agentId = this.#agentIdOf(call)
      span.calls(agentId)
      const metadata = forAgent(call.metadata)
      if (!fitsBounds(metadata)) throw tooMuchMetadata()
      const reply = await this.#forward({
        agentId,
        method: call.method,
        metadata: span.metadata(metadata),
        messages: call,
        safety: 'unsafe', // only the agent knows what a method does
        caller: gitlabCaller,
        signal: call.signal,
      })
      delivery = 'maybe'
      const head = await reply.metadata
      if (head) call.sendMetadata(fromAgent(head))
      for await (const message of reply.messages) {
        const full = call.send(message)
        if (full) await full
        call.signal.throwIfAborted()
      }
      const { error, trailers } = await reply.done
      return error ? failed(error, delivery, trailers) : { trailers: fromAgent(trailers) }
    } catch (error) {
      return failed(KasError.from(error), delivery)
    }
  }

  /** @throws KasError METHOD_UNKNOWN, INVALID_MESSAGE */
  #agentIdOf({ method, metadata }: RailsCall): AgentId {
    const values = metadata[agentIdKey]
    const known = agentServices.some((service) => method.startsWith(service))
    if (method.startsWith(replicaPackages) || (!values && !known)) {
      this.#onUnserved(method)
      throw new KasError({ code: 'METHOD_UNKNOWN', method })
    }
    if (!values) throw new KasError({ code: 'INVALID_MESSAGE', detail: `metadata ${agentIdKey} is required` })
    const [value = ''] = values
    const agentId = values.length === 1 ? parseAgentId(value) : undefined
    if (agentId !== undefined) return agentId
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `metadata ${agentIdKey} must be one agent id` })
  }
}

function failed(error: KasError, delivery: Delivery, trailers = noMetadata): Outcome {
  const reached = error.spec.code === 'TUNNEL_LOST' ? error.spec.delivery : delivery
  return { error, trailers: { ...fromAgent(trailers), [deliveryKey]: [reached] } }
}

function tooMuchMetadata(): KasError {
  const detail = `metadata for an agent has at most ${maxMetadataBytes} bytes in ${maxMetadataValues} values`
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

function forAgent(metadata: Metadata): Metadata {
  return without(metadata, (key) => isHopKey(key) || notForAgents.has(key))
}

function fromAgent(metadata: Metadata): Metadata {
  return without(metadata, isHopKey)
}

function isHopKey(key: string): boolean {
  return key.startsWith('kas-hop-') || hopKeys.has(key)
}

function without(metadata: Metadata, isLeftOut: (key: string) => boolean): Metadata {
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => !isLeftOut(key)))
}
