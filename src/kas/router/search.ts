import { type Call, noMetadata, type Reply } from '../../call/call.ts'
import { KnownMessages } from '../../call/known-messages.ts'
import type { Offer } from '../../call/offer.ts'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { type AskOptions, isUsable } from '../replicas/link.ts'
import type { Replicas, Way } from '../replicas/links.ts'
import type { Tunnel } from '../tunnels/tunnel.ts'
import type { Tunnels } from '../tunnels/tunnels.ts'
import { Race } from './race.ts'

export interface SearchOptions {
  /** how long a call waits for its agent. ms; upstream's, which agentk and UI users know */
  readonly findTimeoutMs: number
  /** a safe call without an answer for so long is tried a second way beside. ms */
  readonly hedgeMs: number
  /** how long a call waits for an agent whose holders are all out of reach. ms */
  readonly unreachableMs: number
}

export const defaultSearch: SearchOptions = { findTimeoutMs: 20_000, hedgeMs: 300, unreachableMs: 3000 }

export interface SearchComponents {
  readonly tunnels: Pick<Tunnels, 'wait' | 'giveBack' | 'holds'>
  readonly replicas: Pick<Replicas, 'ways' | 'holds' | 'onChange'>
  readonly hedges: HedgeBudget
  /** a monotonic one */
  readonly clock: Clock
}

/** Hedges a call earns: so that they never feed an overload (doc/routing.md "Another replica holds the agent"). */
const sharePerCall = 0.05
const burst = 50

/** How many calls may be tried a second way while the first has not answered. */
export class HedgeBudget {
  #tokens = burst

  /** A call began. */
  earn(): void {
    this.#tokens = Math.min(burst, this.#tokens + sharePerCall)
  }

  /** @returns false: there is no hedge to spend */
  spend(): boolean {
    if (this.#tokens < 1) return false
    this.#tokens--
    return true
  }
}

/** the own tunnels, among the ways of a race */
const here = {}

/** Finds a tunnel for one call that no own idle tunnel serves (doc/routing.md "Another replica holds the agent"). */
export class Search {
  readonly #components: SearchComponents
  readonly #options: SearchOptions
  readonly #call: Call
  readonly #began: number

  constructor(components: SearchComponents, call: Call, options: SearchOptions = defaultSearch) {
    this.#components = components
    this.#call = call
    this.#options = options
    this.#began = components.clock.now()
  }

  /**
   * Asks the other holders one after another, and if none has an idle tunnel, waits for the first that has.
   *
   * @throws KasError AGENT_NOT_CONNECTED, AGENT_SATURATED, HOLDER_UNREACHABLE, TOO_MANY_WAITING, or the call's reason
   */
  async run(): Promise<Offer> {
    const { signal } = this.#call
    const onAbort = (race: Race) => () => race.fail(signal.reason)
    for (const phase of [this.#take, this.#wait]) {
      signal.throwIfAborted()
      const race = new Race()
      const abort = onAbort(race)
      signal.addEventListener('abort', abort, { once: true })
      const finish = phase(race)
      try {
        const offer = await race.winner
        if (offer) return offer
      } finally {
        finish()
        signal.removeEventListener('abort', abort)
      }
    }
    throw new Error('a wait ends with an offer or an error')
  }

  /** Each holder says at once whether it has an idle tunnel; a slow one is passed by. */
  #take = (race: Race): (() => void) => {
    const call = this.#call
    const eager = call.safety === 'safe' && call.messages instanceof KnownMessages
    const asked = new Map<Way['instance'], Way>()
    const next = () => {
      const way = this.#ways().find(({ instance, link }) => !asked.has(instance) && isUsable(link.reach))
      if (way) {
        asked.set(way.instance, way)
        race.enter(way, (signal) => this.#ask(way, { waitMs: 0, eager, signal }), next)
      } else if (race.size === 0) race.close()
      return way !== undefined
    }
    next()
    const stopHedging = this.#hedge(race, asked, next)
    const stopWatching = this.#components.replicas.onChange(call.agentId, () => {
      for (const way of asked.values()) {
        if (!race.has(way) || isUsable(way.link.reach)) continue
        race.drop(way)
        next()
      }
    })
    return () => {
      stopHedging()
      stopWatching()
    }
  }

  /**
   * No answer for `hedgeMs`: suspects are passed by, and a safe call may be tried a second way beside, once. If there
   * is no further way, what is asked so far is asked again to wait, with all others.
   */
  #hedge(race: Race, asked: ReadonlyMap<unknown, Way>, next: () => boolean): () => void {
    const { hedges, clock } = this.#components
    const { hedgeMs } = this.#options
    let mayHedge = this.#call.safety === 'safe'
    const check = () => {
      const areSuspect = [...asked.values()].every((way) => !race.has(way) || way.link.reach !== 'reachable')
      const isHedge = !areSuspect && mayHedge && hedges.spend()
      if (isHedge) mayHedge = false
      if ((areSuspect || isHedge) && !next()) race.close()
      cancel = clock.after(hedgeMs / 2, check)
    }
    let cancel = clock.after(hedgeMs, check)
    return () => cancel()
  }

  /** All holders, this replica included, give the next tunnel that they have; what changes is seen at once. */
  #wait = (race: Race): (() => void) => {
    const { replicas, tunnels, clock } = this.#components
    const { agentId } = this.#call
    const { findTimeoutMs, unreachableMs } = this.#options
    const asked = new Map<Way['instance'], Way>()
    const remainingMs = () => Math.max(0, this.#began + findTimeoutMs - clock.now())
    let stopGivingUp: (() => void) | undefined
    race.enter(here, (signal) => this.#waitHere(signal), ignore)
    const update = () => {
      const ways = this.#ways()
      for (const way of ways) {
        const before = asked.get(way.instance)
        if (before && (race.has(before) || before.version === way.version) && before.link === way.link) continue
        if (before) race.drop(before)
        if (way.link.reach === 'down') continue
        asked.set(way.instance, way)
        const ask = (signal: AbortSignal) => this.#ask(way, { waitMs: remainingMs(), eager: false, signal })
        race.enter(way, ask, () => this.#lostWay(asked, way))
      }
      const isOutOfReach = ways.length > 0 && !ways.some(({ link }) => isUsable(link.reach))
      if (!isOutOfReach || tunnels.holds(agentId)) {
        stopGivingUp?.()
        stopGivingUp = undefined
      } else {
        const waitedMs = clock.now() - this.#began
        const fail = () => race.fail(new KasError({ code: 'HOLDER_UNREACHABLE' }))
        stopGivingUp ??= clock.after(Math.max(unreachableMs - waitedMs, unreachableMs / 3), fail)
      }
    }
    update()
    const stopWatching = replicas.onChange(agentId, update)
    const stopWaiting = clock.after(remainingMs(), () => race.fail(this.#notFound()))
    return () => {
      stopGivingUp?.()
      stopWaiting()
      stopWatching()
    }
  }

  /** A way that answered `none`: it may be asked again once its row, or its connection, is another one. */
  #lostWay(asked: Map<Way['instance'], Way>, way: Way): void {
    if (way.link.reach === 'down' && asked.get(way.instance) === way) asked.delete(way.instance)
  }

  async #waitHere(signal: AbortSignal): Promise<Offer> {
    const { tunnels } = this.#components
    const { agentId, method } = this.#call
    for (;;) {
      const tunnel = await tunnels.wait(agentId, method, signal)
      // one that was lost on its way from the queue to here was not used: wait on
      if (tunnel.state === 'taken') return offerOf(tunnel, () => tunnels.giveBack(agentId, tunnel))
    }
  }

  #ask({ link }: Way, options: Omit<AskOptions, 'tryElsewhere'>): Promise<Offer | undefined> {
    const { tunnels, hedges } = this.#components
    const isElsewhere = (way: Way) => way.link !== link && way.link.reach === 'reachable'
    const tryElsewhere = () => (tunnels.holds(this.#call.agentId) || this.#ways().some(isElsewhere)) && hedges.spend()
    return link.ask(this.#call, { ...options, tryElsewhere })
  }

  #ways(): Way[] {
    return this.#components.replicas.ways(this.#call.agentId, this.#call.method)
  }

  #notFound(): KasError {
    const { tunnels, replicas } = this.#components
    const { agentId } = this.#call
    const code = tunnels.holds(agentId) || replicas.holds(agentId) ? 'AGENT_SATURATED' : 'AGENT_NOT_CONNECTED'
    return new KasError({ code, waitedMs: this.#options.findTimeoutMs })
  }
}

function offerOf(tunnel: Tunnel, giveBack: () => void): Offer {
  const forward = (call: Call) => (tunnel.state === 'taken' ? tunnel.forward(call) : lostReply())
  return { forward, giveBack }
}

function ignore(): void {}

const noReplyMetadata = Promise.resolve(undefined)

/** Of a call whose tunnel was lost before anything was sent on it. */
export function lostReply(): Reply {
  const error = new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
  return { metadata: noReplyMetadata, messages: nothing(), done: Promise.resolve({ error, trailers: noMetadata }) }
}

async function* nothing(): AsyncGenerator<Uint8Array, void, void> {}
