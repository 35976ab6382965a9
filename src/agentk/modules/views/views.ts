import { isDeepStrictEqual } from 'node:util'
import { create, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { pause } from '../../../lib/pause.ts'
import { linkedController } from '../../../lib/signals.ts'
import { LeadResponseSchema, Views as ViewsService } from '../../../proto/gen/views_pb.ts'
import { methodPath, readOneMessage } from '../../../proto/unary.ts'
import type { Election } from '../../election/election.ts'
import type { Term } from '../../election/terms.ts'
import type { KasConnections } from '../../tunnels/kas-connections.ts'
import { replyOf } from '../../tunnels/reply-of.ts'
import type { Serve } from '../../tunnels/serve.ts'
import { refuseViews } from './thread/follow-reply.ts'
import { type ConfiguredViews, Report } from './thread/report.ts'
import type { RuleReader, RuleSources } from './thread/rule-sources.ts'
import type { ThreadSettings, ViewsFacts } from './thread/thread-messages.ts'
import { ViewsThread, type ViewsThreadOptions } from './thread/views-thread.ts'
import type { ViewsMetrics } from './views-metrics.ts'

export const leadMethod = methodPath(ViewsService.method.lead)
export const followMethod = methodPath(ViewsService.method.follow)

/** A pod that cannot renew its lease stops showing views within this time. ms */
const checkMs = 1000

/** Reasons that a view gets while views are off. */
const offReasons = {
  absent: 'there is no views.yaml beside the config.yaml of this agent',
  unusable: 'the views.yaml beside the config.yaml of this agent cannot be used',
} as const

const noFacts: ViewsFacts = { kinds: 0, objects: 0, state: 'syncing', rulesAside: [] }

export interface ViewsComponents {
  readonly kas: Pick<KasConnections, 'session' | 'metadata' | 'announce' | 'hasFeature' | 'onFeature'>
  readonly election: Pick<Election, 'identity' | 'leader' | 'holds'>
  readonly loadRules: () => Promise<Pick<RuleReader, 'read' | 'used'>>
  /** gets the rules of views.yaml, whether views are served or not */
  readonly written?: { readonly set: (health: readonly unknown[]) => void } | undefined
  readonly metrics: ViewsMetrics
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface ViewsOptions {
  readonly podName: string
  /** without the parts that come from views.yaml */
  readonly settings: Omit<ThreadSettings, 'configuration' | 'rules'>
  readonly thread?: ViewsThreadOptions
}

/** Serves views of the cluster to callers who may see them: on the leading pod alone, while there is a views.yaml. */
export class Views {
  readonly #components: ViewsComponents
  readonly #options: ViewsOptions
  readonly #thread: ViewsThread
  readonly #report: Report
  #facts = noFacts
  /** undefined: views were never on */
  #rules: Pick<RuleReader, 'read' | 'used'> | undefined
  /** undefined: nothing is known yet in this term */
  #configured: ConfiguredViews | undefined
  #isAnnounced = false
  #wake: () => void = () => undefined
  /** ends the streams that refuse views while these are off */
  #refusals: AbortController | undefined
  #running: { readonly controller: AbortController; readonly ended: Promise<void> } | undefined

  constructor(components: ViewsComponents, options: ViewsOptions) {
    const { kas, metrics, log, clock, random } = components
    this.#components = components
    this.#options = options
    const onFacts = (facts: ViewsFacts) => {
      this.#facts = facts
      this.#report.changed()
    }
    const onRules = (good: RuleSources['users']) => this.#rules?.used(good)
    const { threadEnded: onEnded } = metrics
    this.#thread = new ViewsThread({ onFacts, onRules, onEnded, log, clock, random }, options.thread)
    this.#report = new Report({
      kas,
      onConfiguration: (configured, problem) => {
        this.#configure(configured)
        this.#thread.unusable(problem)
      },
      facts: () => this.#facts,
      podName: options.podName,
      log,
      clock,
      random,
    })
  }

  /** Only the leading pod has `Follow`, once it is known whether views are on: by this kas finds the pod. */
  get methods(): ReadonlyMap<string, Serve> {
    const all = new Map<string, Serve>([[leadMethod, this.#lead]])
    if (this.#isAnnounced) all.set(followMethod, this.#follow)
    return all
  }

  readonly lead = async ({ signal, holds }: Term): Promise<void> => {
    const reported = this.#report.run(signal)
    while (!signal.aborted) {
      const waking = linkedController(signal)
      this.#wake = () => waking.abort()
      await this.#loadRules()
      await this.#update(holds())
      await pause(checkMs, this.#components.clock, waking.signal)
      waking.dispose()
    }
    this.#configured = undefined // in a later term kas sends it again
    await this.#update(false)
    await reported
  }

  /** A file that cannot be used leaves the last good one in place. */
  #configure(configured: ConfiguredViews): void {
    const stays = configured === 'unusable' && typeof this.#configured === 'object'
    if (stays || isDeepStrictEqual(configured, this.#configured)) return
    this.#configured = configured
    this.#components.written?.set(typeof configured === 'object' ? (configured.health ?? []) : [])
    this.#running?.controller.abort() // starts again with the next check
    this.#wake()
  }

  async #loadRules(): Promise<void> {
    if (this.#rules || typeof this.#configured !== 'object') return
    try {
      this.#rules = await this.#components.loadRules()
    } catch (error) {
      this.#components.log.error({ error }, 'Rules of health cannot be read')
    }
  }

  /** Starts or ends the thread, as the configuration and the lease require. */
  async #update(holds: boolean): Promise<void> {
    const wanted = holds && this.#rules && typeof this.#configured === 'object' ? this.#configured : undefined
    const isKnown = holds && this.#configured !== undefined
    if (this.#running && (!wanted || this.#running.controller.signal.aborted)) {
      this.#running.controller.abort()
      await this.#running.ended
      this.#running = undefined
      this.#facts = noFacts
      if (!wanted) this.#components.log.info('Views are kept here no more')
    }
    if (wanted && this.#rules && !this.#running) {
      const controller = new AbortController()
      const { health = [], ...configuration } = wanted
      const rules = this.#rules.read(health)
      const ended = this.#thread.run({ ...this.#options.settings, configuration, rules }, controller.signal)
      this.#running = { controller, ended }
      this.#components.log.info('Views are kept here')
    }
    if (!isKnown || wanted) this.#endRefusals()
    if (this.#isAnnounced === isKnown) return
    this.#isAnnounced = isKnown
    this.#components.kas.announce()
  }

  /** While views are off, each view gets the reason, so nobody waits for another pod. */
  readonly #follow: Serve = async (call) => {
    if (typeof this.#configured !== 'string') return this.#thread.follow(call)
    this.#refusals ??= new AbortController()
    return refuseViews(call, { reason: offReasons[this.#configured], over: this.#refusals.signal })
  }

  #endRefusals(): void {
    this.#refusals?.abort()
    this.#refusals = undefined
  }

  /** Answers which pod leads; every pod serves it. */
  readonly #lead: Serve = async ({ messages }) => {
    const { election } = this.#components
    await readOneMessage(messages)
    const podName = election.leader?.split('_')[0] ?? ''
    const response = create(LeadResponseSchema, { podName, isSelf: election.holds() })
    return replyOf(oneMessage(toBinary(LeadResponseSchema, response)))
  }
}

async function* oneMessage(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
