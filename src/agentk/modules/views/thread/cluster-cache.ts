import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { Identities } from '../../../cluster/identities.ts'
import { JudgedNow } from '../../../health/custom/judged-now.ts'
import type { RuleSources } from '../../../health/custom/rule-sources.ts'
import { Reviews } from '../access/reviews.ts'
import { Environments } from '../projection/environments.ts'
import { Interned } from '../store/interned.ts'
import { Records } from '../store/records.ts'
import { Rules } from '../store/rules.ts'
import { TimeSlices } from '../store/time-slices.ts'
import { Problems } from '../view/problems.ts'
import { ViewHost } from '../view/view-host.ts'
import { Warnings } from '../watch/events.ts'
import { Kinds } from '../watch/kinds.ts'
import { FollowStream } from './follow-stream.ts'
import { asideTexts } from './put-aside.ts'
import type { ThreadAnswer, ThreadRequest, ThreadSettings, ViewsFacts } from './thread-messages.ts'
import { viewsBounds } from './views-bounds.ts'

/** Interval at which facts are checked. ms */
const factsMs = 1000

export interface ClusterCacheComponents {
  /** acts as agentk itself; for views alone */
  readonly own: ApiClient
  /** acts as the account that lists and watches */
  readonly watching: ApiClient
  readonly answer: (message: ThreadAnswer) => void
  readonly log: Logger
  /** ms since 1970 by the API server: times in objects are compared with it */
  readonly clock: Clock
  /** monotonic, for durations such as how long rights count */
  readonly pace: Clock
  readonly random: () => number
}

type CacheSettings = Pick<ThreadSettings, 'judged' | 'configuration' | 'rules' | 'heapMb' | 'mayImpersonate'>

/** Cache of one cluster for views, with its viewers. */
export class ClusterCache {
  readonly #components: ClusterCacheComponents
  readonly #rules: Rules
  readonly #records: Records
  readonly #kinds: Kinds
  readonly #problems = new Problems()
  readonly #sources: Pick<RuleSources, 'last' | 'unread'>
  readonly #host: ViewHost
  readonly #streams = new Map<number, FollowStream>()
  #lastFacts: ViewsFacts | undefined

  constructor(
    components: ClusterCacheComponents,
    { configuration, heapMb, rules: sources, judged, mayImpersonate: may }: CacheSettings,
  ) {
    const { own, watching, log, clock, pace, random } = components
    const { follow = {}, verdict = 'kas', environments = [] } = configuration
    this.#components = components
    this.#sources = sources
    const rules = new Rules(sources.users, sources.vendors, judged && new JudgedNow(judged))
    this.#rules = rules
    const { records: most, ...bounds } = viewsBounds(heapMb)
    const known = { interned: new Interned(), environments: new Environments(environments) }
    const turns = new TimeSlices(pace)
    this.#records = new Records({ clock, rules, turns, ...known }, most)
    const events = new Warnings()
    const identities = new Identities({ log }, { own: own.access.impersonation, may })
    const reviews = new Reviews({ api: own, clock: pace, log, identities })
    const records = this.#records
    const { states } = records
    const problems = this.#problems
    this.#host = new ViewHost({ records, states, events, reviews, problems, clock, turns }, { verdict, ...bounds })
    const sinks = { sink: records, events, evidence: records.evidence }
    this.#kinds = new Kinds({ api: watching, ...sinks, log, clock, random }, { follow, rules })
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    this.#reportFacts(signal)
    await this.#checkRules()
    await this.#kinds.run(signal)
    this.#host.close()
    this.#records.stop()
  }

  async #checkRules(): Promise<void> {
    const { answer, log } = this.#components
    const { last, unread } = this.#sources
    const { good, broken } = await this.#rules.checkUsers(last)
    const all = [...unread, ...broken]
    for (const { kind, problem, isKept, isAside } of all) {
      if (isAside) continue // it was logged when it was put aside
      if (isKept) log.warn({ kind, problem }, 'A rule of health cannot be used, its last good form stays')
      else log.warn({ kind, problem }, 'A rule of health is not used')
    }
    this.#problems.setRules(all)
    answer({ kind: 'rules', good })
  }

  asked(request: ThreadRequest): void {
    if (request.kind === 'ping') return void this.#components.answer({ kind: 'pong' })
    if (request.kind === 'unusable') return void this.#problems.setUnusable(request.problem)
    const { stream } = request
    const known = this.#streams.get(stream)
    if (request.kind === 'opened') this.#streams.set(stream, this.#open(stream))
    else if (request.kind === 'left') this.#end(stream)
    else if (request.kind === 'sent') known?.sent(request.bytes)
    else if (request.kind === 'request' && known) this.#receive(stream, known, request.bytes)
  }

  #open(stream: number): FollowStream {
    const { answer } = this.#components
    return new FollowStream({ host: this.#host, send: (bytes) => answer({ kind: 'response', stream, bytes }) })
  }

  #receive(stream: number, to: FollowStream, bytes: Uint8Array): void {
    try {
      to.receive(bytes)
    } catch (error) {
      this.#end(stream)
      this.#components.answer({ kind: 'failed', stream, error: KasError.from(error).spec })
    }
  }

  #end(stream: number): void {
    this.#streams.get(stream)?.end()
    this.#streams.delete(stream)
  }

  #reportFacts(signal: AbortSignal): void {
    if (signal.aborted) return
    const { answer, clock } = this.#components
    const facts = this.#facts()
    const { kinds, objects, state } = this.#lastFacts ?? {}
    if (kinds !== facts.kinds || objects !== facts.objects || state !== facts.state) answer({ kind: 'facts', facts })
    this.#lastFacts = facts
    clock.after(factsMs, () => this.#reportFacts(signal))
  }

  #facts(): ViewsFacts {
    const states = [...this.#records.states.all()].map(([, state]) => state).filter(({ is }) => is !== 'refused')
    const state = states.some(({ is }) => is === 'syncing') || states.length === 0 ? 'syncing' : 'live'
    const isStale = states.some(({ is }) => is === 'stale')
    const rulesAside = asideTexts(this.#sources)
    return { kinds: states.length, objects: this.#records.size, state: isStale ? 'stale' : state, rulesAside }
  }
}
