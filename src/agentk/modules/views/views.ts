import { isDeepStrictEqual } from 'node:util'
import { create, toBinary } from '@bufbuild/protobuf'
import { noMetadata } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { pause } from '../../../lib/pause.ts'
import { LeadResponseSchema, Views as ViewsService } from '../../../proto/gen/views_pb.ts'
import { methodPath, readOneMessage } from '../../../proto/unary.ts'
import type { Election } from '../../election/election.ts'
import type { Term } from '../../election/terms.ts'
import type { KasConnections } from '../../tunnels/kas-connections.ts'
import type { Serve } from '../../tunnels/serve.ts'
import { refuseViews } from './refused-views.ts'
import { Report } from './report.ts'
import type { ThreadSettings, ViewsConfiguration, ViewsFacts } from './thread-messages.ts'
import { ViewsThread, type ViewsThreadOptions } from './views-thread.ts'

export const leadMethod = methodPath(ViewsService.method.lead)
export const followMethod = methodPath(ViewsService.method.follow)

/** A pod that cannot renew its lease shows nothing any more after so long. ms */
const lookMs = 1000

const noFacts: ViewsFacts = { kinds: 0, objects: 0, state: 'syncing' }

export interface ViewsComponents {
  readonly kas: Pick<KasConnections, 'session' | 'metadata' | 'announce' | 'takesReports' | 'onTakesReports'>
  readonly election: Pick<Election, 'identity' | 'leader' | 'holds'>
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface ViewsOptions {
  readonly podName: string
  /** without what follows from views.yaml */
  readonly settings: Omit<ThreadSettings, 'configuration'>
  readonly thread?: ViewsThreadOptions
}

/** What runs in the cluster, for those who may see it: the leading pod alone keeps it, while views.yaml is there. */
export class Views {
  readonly #components: ViewsComponents
  readonly #options: ViewsOptions
  readonly #thread: ViewsThread
  readonly #report: Report
  #facts = noFacts
  #configuration: ViewsConfiguration | undefined
  /** kas has said in this term whether views are on */
  #isTold = false
  #isAnnounced = false
  /** of streams that refuse views, while these are off */
  #refusals: AbortController | undefined
  #running: { readonly controller: AbortController; readonly ended: Promise<void> } | undefined

  constructor(components: ViewsComponents, options: ViewsOptions) {
    const { kas, log, clock, random } = components
    this.#components = components
    this.#options = options
    const onFacts = (facts: ViewsFacts) => {
      this.#facts = facts
      this.#report.changed()
    }
    this.#thread = new ViewsThread({ onFacts, log, clock, random }, options.thread)
    this.#report = new Report({
      kas,
      onConfiguration: (configuration) => this.#configure(configuration),
      facts: () => this.#facts,
      podName: options.podName,
      log,
      clock,
      random,
    })
  }

  /** `Follow` of the pod that leads alone, once kas has said whether views are on: kas finds it by that. */
  get methods(): ReadonlyMap<string, Serve> {
    const all = new Map<string, Serve>([[leadMethod, this.#lead]])
    if (this.#isAnnounced) all.set(followMethod, this.#follow)
    return all
  }

  readonly lead = async ({ signal, holds }: Term): Promise<void> => {
    const reported = this.#report.run(signal)
    while (!signal.aborted) {
      await this.#update(holds())
      await pause(lookMs, this.#components.clock, signal)
    }
    await this.#update(false)
    this.#configuration = undefined // another pod is told from now on
    this.#isTold = false
    await reported
  }

  #configure(configuration: ViewsConfiguration | undefined): void {
    this.#isTold = true
    if (isDeepStrictEqual(configuration, this.#configuration)) return
    this.#configuration = configuration
    this.#running?.controller.abort() // it begins anew with the next look
  }

  /** Begins or ends the thread, as it should be now. */
  async #update(holds: boolean): Promise<void> {
    const wanted = holds ? this.#configuration : undefined
    if (this.#running && (!wanted || this.#running.controller.signal.aborted)) {
      this.#running.controller.abort()
      await this.#running.ended
      this.#running = undefined
      this.#facts = noFacts
      if (!wanted) this.#components.log.info('Views are kept here no more')
    }
    if (wanted && !this.#running) {
      const controller = new AbortController()
      const ended = this.#thread.run({ ...this.#options.settings, configuration: wanted }, controller.signal)
      this.#running = { controller, ended }
      this.#components.log.info('Views are kept here')
    }
    if (!holds || wanted) this.#endRefusals()
    const isAnnounced = holds && this.#isTold
    if (this.#isAnnounced === isAnnounced) return
    this.#isAnnounced = isAnnounced
    this.#components.kas.announce()
  }

  #endRefusals(): void {
    this.#refusals?.abort()
    this.#refusals = undefined
  }

  /** While views are off each is told so: nobody waits for another pod. */
  readonly #follow: Serve = async (call) => {
    if (this.#running) return this.#thread.follow(call)
    this.#refusals ??= new AbortController()
    return refuseViews(call, this.#refusals.signal)
  }

  /** Every pod says who leads. */
  readonly #lead: Serve = async ({ messages }) => {
    const { election } = this.#components
    await readOneMessage(messages)
    const podName = election.leader?.split('_')[0] ?? ''
    const response = create(LeadResponseSchema, { podName, isSelf: this.#isAnnounced })
    return {
      metadata: Promise.resolve(noMetadata),
      messages: oneMessage(toBinary(LeadResponseSchema, response)),
      done: Promise.resolve({ trailers: noMetadata }),
    }
  }
}

async function* oneMessage(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
