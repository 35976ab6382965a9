import { create, type DescMethodUnary, type MessageInitShape, type MessageShape } from '@bufbuild/protobuf'
import type { Clock } from '../../lib/clock.ts'
import { Code, KasError } from '../../lib/errors.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import type { InstanceId, Membership } from '../../membership/membership.ts'
import { callUnary, methodPath } from '../../proto/unary.ts'
import { isUsable } from './link.ts'
import type { Links } from './links.ts'

export interface Peer {
  readonly instance: InstanceId
  readonly name: string
}

type Method = DescMethodUnary

/** Calls from this replica to its peers. */
export interface Peers {
  /** Known peers, reachable or not. */
  all(): readonly Peer[]
  /** True if the peer is reachable or suspect. */
  isReachable(instance: InstanceId): boolean
  /** First in the ring's order for the key, among this replica and reachable peers; undefined: none of them serves. */
  first(key: string): Peer | 'self' | undefined
  /** True if `first` is this replica. */
  isFirst(key: string): boolean
  /** @throws KasError the peer's error, or that it has not answered within 1 s */
  call<M extends Method>(
    to: InstanceId,
    method: M,
    request: MessageInitShape<M['input']>,
  ): Promise<MessageShape<M['output']>>
  /** Calls all reachable peers. Never rejects. @returns the answers of the peers that sent one */
  broadcast<M extends Method>(
    method: M,
    request: MessageInitShape<M['input']>,
  ): Promise<ReadonlyMap<Peer, MessageShape<M['output']>>>
  /**
   * Calls `greet` with each reachable peer, and with each that becomes reachable, until the returned function is
   * called. A greeting that fails is repeated: a peer that has just started may not know this replica yet.
   */
  onReached(greet: (peer: Peer) => Promise<void>): () => void
  /** Calls `listener` after `first` may have changed, until the returned function is called. */
  onChange(listener: () => void): () => void
}

/** Peers of a replica that runs alone. */
export const noPeers: Peers = {
  all: () => [],
  isReachable: () => false,
  first: () => 'self',
  isFirst: () => true,
  call: async () => {
    throw notConnected()
  },
  broadcast: async () => new Map(),
  onReached: () => () => undefined,
  onChange: () => () => undefined,
}

export interface LinkPeersComponents {
  readonly membership: Pick<Membership, 'name' | 'instance' | 'rows' | 'rank'>
  readonly links: Pick<Links, 'link' | 'onReached' | 'onPeers'>
  readonly clock: Clock
  readonly log: Logger
}

/** Time for an answer: one round trip, because no method waits for anything. ms */
const timeoutMs = 1000
/** Attempts of a greeting, each `retryMs` after the last. */
const maxTries = 5
const retryMs = 1000

/** Calls peers on the links to them (doc/internals/routing.md "Another replica holds the agent"). */
export class LinkPeers implements Peers {
  readonly #components: LinkPeersComponents
  readonly #greetings = new Set<(peer: Peer) => Promise<void>>()
  readonly #retries = new Set<() => void>()
  readonly #listeners = new Listeners()

  constructor(components: LinkPeersComponents) {
    this.#components = components
    components.links.onReached((instance) => {
      const peer = this.#peers().find((each) => each.instance === instance)
      if (peer) for (const greet of this.#greetings) void this.#greet(peer, greet, 1)
    })
    components.links.onPeers(() => this.#listeners.notify())
  }

  /** Stops greetings and notifications. */
  stop(): void {
    this.#greetings.clear()
    this.#listeners.clear()
    for (const cancel of this.#retries) cancel()
    this.#retries.clear()
  }

  all(): readonly Peer[] {
    return this.#peers()
  }

  isReachable(instance: InstanceId): boolean {
    const link = this.#components.links.link(instance)
    return link !== undefined && isUsable(link.reach)
  }

  first(key: string): Peer | 'self' | undefined {
    const { membership } = this.#components
    const reachable = new Map(this.#reachable().map((peer) => [peer.name, peer]))
    const name = membership.rank(key).find((each) => each === membership.name || reachable.has(each))
    return name === membership.name ? 'self' : name === undefined ? undefined : reachable.get(name)
  }

  isFirst(key: string): boolean {
    return this.first(key) === 'self'
  }

  async call<M extends Method>(
    to: InstanceId,
    method: M,
    request: MessageInitShape<M['input']>,
  ): Promise<MessageShape<M['output']>> {
    const session = this.#components.links.link(to)?.session
    if (!session) throw notConnected()
    const path = methodPath(method)
    const answer = callUnary(session, method.input, method.output, create(method.input, request), {
      method: path,
      timeoutMs,
    })
    return (await answer) as MessageShape<M['output']>
  }

  async broadcast<M extends Method>(
    method: M,
    request: MessageInitShape<M['input']>,
  ): Promise<ReadonlyMap<Peer, MessageShape<M['output']>>> {
    const answers = new Map<Peer, MessageShape<M['output']>>()
    const call = async (peer: Peer) => {
      try {
        answers.set(peer, await this.call(peer.instance, method, request))
      } catch (error) {
        const { instance } = peer
        this.#components.log.debug({ error, instance, grpc_method: method.name }, 'A replica did not answer')
      }
    }
    await Promise.all(this.#reachable().map(call))
    return answers
  }

  onReached(greet: (peer: Peer) => Promise<void>): () => void {
    const own = (peer: Peer) => greet(peer)
    this.#greetings.add(own)
    for (const peer of this.#reachable()) void this.#greet(peer, own, 1)
    return () => this.#greetings.delete(own)
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  async #greet(peer: Peer, greet: (peer: Peer) => Promise<void>, tries: number): Promise<void> {
    try {
      await greet(peer)
    } catch (cause) {
      const error = KasError.from(cause)
      if (tries < maxTries && error.grpcCode !== Code.UNIMPLEMENTED) this.#greetLater(peer, greet, tries + 1)
      else this.#components.log.debug({ error, instance: peer.instance }, 'A replica could not be greeted')
    }
  }

  #greetLater(peer: Peer, greet: (peer: Peer) => Promise<void>, tries: number): void {
    if (!this.#greetings.has(greet)) return
    const cancel = this.#components.clock.after(retryMs, () => {
      this.#retries.delete(cancel)
      if (this.#greetings.has(greet)) void this.#greet(peer, greet, tries)
    })
    this.#retries.add(cancel)
  }

  #reachable(): Peer[] {
    return this.#peers().filter(({ instance }) => this.isReachable(instance))
  }

  #peers(): Peer[] {
    const { membership } = this.#components
    const rows = membership.rows().filter(({ instance }) => instance !== membership.instance)
    return rows.map(({ instance, head }) => ({ instance, name: head.name }))
  }
}

function notConnected(): KasError {
  return new KasError({ code: 'CANCELLED', detail: 'the replica is gone' })
}
