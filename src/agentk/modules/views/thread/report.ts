import { create, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { abortable } from '../../../../lib/signals.ts'
import { decodeMessage } from '../../../../proto/decode.ts'
import {
  type Environment,
  ReportRequestSchema,
  ReportResponseSchema,
  Reports,
  type ViewsConfiguration as SentConfiguration,
} from '../../../../proto/gen/views_pb.ts'
import type { ClientSession, ClientStream } from '../../../../proto/grpc/client-session.ts'
import { methodPath } from '../../../../proto/unary.ts'
import { viewsFeature } from '../../../../proto/views-json.ts'
import type { KasConnections } from '../../../tunnels/kas-connections.ts'
import { type KeptStream, keepOpen } from '../../../tunnels/keep-open.ts'
import type { ListedEnvironment } from '../projection/environments.ts'
import type { ViewsConfiguration, ViewsFacts } from './thread-messages.ts'

export const reportMethod = methodPath(Reports.method.report)

/** Pause after kas ends a stream without an error, and before changed facts are sent. ms */
const minMs = 1000

/** views.yaml as kas reports it: its content; `absent`: no file; `unusable`: a bad file, and no good one before. */
export type ConfiguredViews = ViewsConfiguration | 'absent' | 'unusable'

export interface ReportComponents {
  readonly kas: Pick<KasConnections, 'session' | 'metadata' | 'hasFeature' | 'onFeature'>
  /** @param problem - reason why the current file cannot be used; empty: it can */
  readonly onConfiguration: (configured: ConfiguredViews, problem: string) => void
  readonly facts: () => ViewsFacts
  readonly podName: string
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

/** Stream between the leading pod and kas: kas sends what to follow, the pod sends facts. */
export class Report {
  readonly #components: ReportComponents
  #stream: ClientStream | undefined
  #sent = ''
  #cancel: (() => void) | undefined

  constructor(components: ReportComponents) {
    this.#components = components
  }

  /** Runs until the signal aborts; opens the stream again whenever it ends. Never rejects. */
  run(signal: AbortSignal): Promise<void> {
    const { kas, log } = this.#components
    const session = (waiting: AbortSignal) => this.#session(waiting)
    const kept: KeptStream = {
      method: reportMethod,
      isOurs: true,
      restMs: minMs,
      read: (stream) => this.#follow(stream),
      refused: (error) => log.error({ error }, 'The report of views failed'),
      failed: (error) => log.error({ error }, 'The stream of views failed'),
    }
    return keepOpen({ ...this.#components, kas: { session, metadata: kas.metadata } }, kept, signal)
  }

  /** Notes that the facts have changed: they are sent soon. */
  changed(): void {
    if (this.#cancel) return
    this.#cancel = this.#components.clock.after(minMs, () => {
      this.#cancel = undefined
      this.#send()
    })
  }

  async #follow(stream: ClientStream): Promise<'ended'> {
    this.#stream = stream
    this.#sent = ''
    this.#send()
    try {
      for await (const message of stream.messages) {
        const { what } = decodeMessage(ReportResponseSchema, message)
        if (what.case === 'configuration') this.#configure(what.value)
      }
      return 'ended'
    } finally {
      this.#stream = undefined
      this.#cancel?.()
      this.#cancel = undefined
    }
  }

  #send(): void {
    const { podName, facts } = this.#components
    const { rulesAside, ...counts } = facts()
    const report = { podName, ...counts, rulesAside: [...rulesAside] }
    const text = JSON.stringify(report)
    if (!this.#stream || text === this.#sent) return
    this.#sent = text
    void this.#stream.send(toBinary(ReportRequestSchema, create(ReportRequestSchema, { facts: report })))
  }

  #configure({ block, problem, environments }: SentConfiguration): void {
    const { log, onConfiguration } = this.#components
    const listed = environments.length > 0 ? { environments: environments.map(plain) } : {}
    if (problem !== '') log.warn({ problem }, 'views.yaml cannot be used, the last good one stays')
    try {
      if (!block) onConfiguration(problem === '' ? 'absent' : 'unusable', problem)
      else onConfiguration({ ...(JSON.parse(Buffer.from(block).toString()) as ViewsConfiguration), ...listed }, problem)
    } catch (error) {
      log.error({ reason: errorText(error) }, 'What kas says of views cannot be used')
    }
  }

  /**
   * Returns a session of a kas that takes reports; a stock kas never does.
   *
   * @throws the signal's reason
   */
  async #session(signal: AbortSignal): Promise<ClientSession> {
    const { kas } = this.#components
    for (;;) {
      const takesReports = Promise.withResolvers<void>()
      const unsubscribe = kas.onFeature(takesReports.resolve)
      try {
        const session = await kas.session(signal)
        if (kas.hasFeature(session, viewsFeature)) return session
        await abortable(takesReports.promise, signal)
      } finally {
        unsubscribe()
      }
    }
  }
}

/** Copies the fields alone: a message has more, and cannot be posted to a thread. */
function plain({ key, namespace, selector }: Environment): ListedEnvironment {
  return { key, namespace, selector: { ...selector } }
}
