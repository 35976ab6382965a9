import { type Call, noMetadata, type Reply } from '../../call/call.ts'
import { KnownMessages } from '../../call/known-messages.ts'
import type { NoOffer, Offer } from '../../call/offer.ts'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { pause } from '../../lib/pause.ts'
import { RateLimit } from '../../lib/rate-limit.ts'
import type { Cancellation } from '../../lib/signals.ts'
import { isUsable, type OfferRequest } from '../peers/link.ts'
import type { Candidate, Links } from '../peers/links.ts'
import type { AwayAgents } from '../tunnels/away-agents.ts'
import type { Tunnel } from '../tunnels/tunnel.ts'
import type { TunnelRegistry } from '../tunnels/tunnel-registry.ts'
import type { TunnelRequest } from '../tunnels/tunnel-shares.ts'
import { Race } from './race.ts'
import { Refusals } from './refusals.ts'

export interface SearchOptions {
  /** how long a call waits for its agent, as long as in upstream kas. ms */
  readonly findTimeoutMs: number
  /** a safe call without an answer for this time is also offered to a second candidate. ms */
  readonly hedgeMs: number
  /** how long a call waits for an agent whose holders are all unreachable. ms */
  readonly unreachableMs: number
  /**
   * How long a call waits for an agent that has been away for long: until a first connection is known to all replicas.
   * For such a cluster kubectl sends five discovery requests. ms
   */
  readonly newcomerMs: number
}

export const defaultSearch: SearchOptions = {
  findTimeoutMs: 20_000,
  hedgeMs: 300,
  unreachableMs: 3000,
  newcomerMs: 500,
}

export interface SearchComponents {
  readonly tunnels: Pick<TunnelRegistry, 'wait' | 'giveBack' | 'holds'>
  readonly links: Pick<Links, 'candidates' | 'holds' | 'onChange'>
  /** agents that have been away for long: a call waits for them only `newcomerMs` */
  readonly away: Pick<AwayAgents, 'find'>
  /** budget of calls that may be offered to a second candidate while the first has not answered */
  readonly hedges: RateLimit
  /** a monotonic clock */
  readonly clock: Clock
}

/** Hedges that each call earns: too few to feed an overload (doc/internals/routing.md "Another replica holds the agent"). */
export const hedgesPerCall = 0.05
/** Hedges that calls save up. */
const maxHedges = 50

/** Creates the budget of hedges: only calls fill it, time does not. */
export function createHedges(): RateLimit {
  return new RateLimit({ now: () => 0 }, { perSecond: 0, burst: maxHedges })
}

/** Pause before a candidate that has not answered is asked again: doubled each time, from the first to the last. ms */
const askAgainMs: readonly [first: number, last: number] = [50, 1000]

/** stands for this replica's own tunnels among the candidates of a race */
const here = {}

/** Finds a tunnel for a call that no idle tunnel here serves (doc/internals/routing.md "Another replica holds the agent"). */
export class TunnelSearch {
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
   * Asks the other holders one after another. If none has an idle tunnel, waits for the first tunnel at any holder. For
   * an agent that has been away for long, the wait ends after `newcomerMs`, except for kas' own calls.
   *
   * @throws KasError AGENT_NOT_CONNECTED, AGENT_SATURATED, HOLDER_UNREACHABLE, TOO_MANY_WAITING, CALLER_OVER_SHARE, or
   *   the call's reason
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

  /** Asks holders for an idle tunnel; each answers at once, and a slow one is passed by. */
  #take = (race: Race): (() => void) => {
    const call = this.#call
    const eager = call.safety === 'safe' && call.messages instanceof KnownMessages
    const asked = new Map<Candidate['instance'], Candidate>()
    const next = () => {
      const candidate = this.#candidates().find(({ instance, link }) => !asked.has(instance) && isUsable(link.reach))
      if (candidate) {
        asked.set(candidate.instance, candidate)
        race.enter(candidate, (cancellation) => this.#offer(candidate, { waitMs: 0, eager, cancellation }), next)
      } else if (race.size === 0) race.close()
      return candidate !== undefined
    }
    next()
    const stopHedging = this.#hedge(race, asked, next)
    const stopWatching = this.#components.links.onChange(call.agentId, () => {
      for (const candidate of asked.values()) {
        if (!race.has(candidate) || isUsable(candidate.link.reach)) continue
        race.drop(candidate)
        next()
      }
    })
    return () => {
      stopHedging()
      stopWatching()
    }
  }

  /**
   * Checks for answers after `hedgeMs`. If only suspects have not answered, the next candidate is asked. A safe call
   * also asks one more candidate beside the first. Without a further candidate the race ends, and the wait begins.
   */
  #hedge(race: Race, asked: ReadonlyMap<unknown, Candidate>, next: () => boolean): () => void {
    const { hedges, clock } = this.#components
    const { hedgeMs } = this.#options
    let mayHedge = this.#call.safety === 'safe'
    const check = () => {
      const waitsFor = (candidate: Candidate) => race.has(candidate) && candidate.link.reach === 'reachable'
      const areSuspect = ![...asked.values()].some(waitsFor)
      const isHedge = !areSuspect && mayHedge && hedges.takeIfThere(1)
      if (isHedge) mayHedge = false
      if ((areSuspect || isHedge) && !next()) race.close()
      cancel = clock.after(hedgeMs / 2, check)
    }
    let cancel = clock.after(hedgeMs, check)
    return () => cancel()
  }

  /** Waits for the next tunnel at all holders, this replica included; changes of holders take effect at once. */
  #wait = (race: Race): (() => void) => {
    const { links, tunnels, clock } = this.#components
    const { agentId } = this.#call
    const { findTimeoutMs, unreachableMs, newcomerMs } = this.#options
    const asked = new Map<Candidate['instance'], Candidate>()
    const remainingMs = () => Math.max(0, this.#began + findTimeoutMs - clock.now())
    let stopGivingUp: (() => void) | undefined
    const refusals = new Refusals(race, clock)
    const onNone = () => {
      const mayGive = [...asked.values()].some((one) => race.has(one) && isUsable(one.link.reach))
      refusals.check(mayGive || (race.has(here) && tunnels.holds(agentId)))
    }
    race.enter(
      here,
      refusals.among((cancellation) => this.#waitHere(cancellation)),
      onNone,
    )
    const update = () => {
      const candidates = this.#candidates()
      for (const candidate of candidates) {
        const { instance, link, version } = candidate
        const before = asked.get(instance)
        if (before && (race.has(before) || before.version === version) && before.link === link) continue
        if (before) race.drop(before)
        if (link.reach === 'down') continue
        asked.set(instance, candidate)
        const request = (cancellation: Cancellation) => this.#waitAt(candidate, remainingMs, cancellation)
        race.enter(candidate, refusals.among(request), () => {
          this.#onNone(asked, candidate)
          onNone()
        })
      }
      const isOutOfReach = candidates.length > 0 && !candidates.some(({ link }) => isUsable(link.reach))
      if (!isOutOfReach || tunnels.holds(agentId)) {
        stopGivingUp?.()
        stopGivingUp = undefined
      } else {
        const waitedMs = clock.now() - this.#began
        const giveUp = () => race.fail(new KasError({ code: 'HOLDER_UNREACHABLE' }))
        stopGivingUp ??= clock.after(Math.max(unreachableMs - waitedMs, unreachableMs / 3), giveUp)
      }
    }
    update()
    const stopWatching = links.onChange(agentId, update)
    const fail = () => race.fail(refusals.worst ?? this.#notFound())
    let stopWaiting = clock.after(remainingMs(), fail)
    if (this.#isAway()) {
      stopWaiting()
      stopWaiting = clock.after(Math.min(newcomerMs, remainingMs()), () => {
        if (this.#isAway()) fail()
        else stopWaiting = clock.after(remainingMs(), fail)
      })
    }
    return () => {
      stopGivingUp?.()
      refusals.stop()
      stopWaiting()
      stopWatching()
    }
  }

  /** Forgets a candidate that answered `none` and is down, so that it is asked again once it is up. */
  #onNone(asked: Map<Candidate['instance'], Candidate>, candidate: Candidate): void {
    if (candidate.link.reach === 'down' && asked.get(candidate.instance) === candidate) asked.delete(candidate.instance)
  }

  async #waitHere(cancellation: Cancellation): Promise<Offer> {
    const { tunnels } = this.#components
    const { signal } = abortingWith(cancellation)
    const { agentId, method, caller, isWatch = false, isLog = false } = this.#call
    const request: TunnelRequest = { agentId, method, caller, isWatch, isLog }
    for (;;) {
      const tunnel = await tunnels.wait(request, signal)
      // a tunnel that was lost after it left the queue was not used: wait on
      if (tunnel.state === 'taken') return offerOf(tunnel, () => tunnels.giveBack(agentId, tunnel))
    }
  }

  async #waitAt(candidate: Candidate, remainingMs: () => number, cancellation: Cancellation): Promise<Offer | NoOffer> {
    const [firstMs, lastMs] = askAgainMs
    for (let pauseMs = firstMs; ; pauseMs = Math.min(lastMs, 2 * pauseMs)) {
      const offer = await this.#offer(candidate, { waitMs: remainingMs(), eager: false, cancellation })
      if (offer !== 'unanswered' || cancellation.isCancelled) return offer
      await pause(pauseMs, this.#components.clock, abortingWith(cancellation).signal)
    }
  }

  #offer({ link }: Candidate, options: Omit<OfferRequest, 'tryElsewhere'>): Promise<Offer | NoOffer> {
    const { tunnels, hedges } = this.#components
    const isElsewhere = (other: Candidate) => other.link !== link && other.link.reach === 'reachable'
    const mayBeElsewhere = () => tunnels.holds(this.#call.agentId) || this.#candidates().some(isElsewhere)
    const tryElsewhere = () => mayBeElsewhere() && hedges.takeIfThere(1)
    return link.askForTunnel(this.#call, { ...options, tryElsewhere })
  }

  #candidates(): readonly Candidate[] {
    return this.#components.links.candidates(this.#call.agentId, this.#call.method)
  }

  #isAway(): boolean {
    const { agentId, waitsForAway = false } = this.#call
    return !waitsForAway && this.#components.away.find(agentId) !== undefined
  }

  #notFound(): KasError {
    const { tunnels, links, away, clock } = this.#components
    const { agentId } = this.#call
    const waitedMs = clock.now() - this.#began
    if (tunnels.holds(agentId) || links.holds(agentId)) return new KasError({ code: 'AGENT_SATURATED', waitedMs })
    return new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs, ...away.find(agentId) })
  }
}

function offerOf(tunnel: Tunnel, giveBack: () => void): Offer {
  const forward = (call: Call) => (tunnel.state === 'taken' ? tunnel.forward(call) : lostReply())
  return { forward, giveBack }
}

function abortingWith(cancellation: Cancellation): AbortController {
  const controller = new AbortController()
  cancellation.onCancel(() => controller.abort())
  return controller
}

const noReplyMetadata = Promise.resolve(undefined)

/** Creates the reply of a call whose tunnel was lost before anything was sent on it. */
export function lostReply(): Reply {
  const error = new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
  return { metadata: noReplyMetadata, messages: nothing(), done: Promise.resolve({ error, trailers: noMetadata }) }
}

async function* nothing(): AsyncGenerator<Uint8Array, void, void> {}
