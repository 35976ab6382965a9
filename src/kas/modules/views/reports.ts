import { create, toBinary } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { printable } from '../../../lib/printable.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import {
  type Facts,
  type ReportRequest,
  ReportRequestSchema,
  ReportResponseSchema,
  Reports,
} from '../../../proto/gen/views_pb.ts'
import { methodPath } from '../../../proto/unary.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { LocalDirectory } from '../../directory/local-directory.ts'
import type { KasHost, StatusLine } from '../../module.ts'
import { viewsFile } from './schema.ts'

/** `/package.Service/Method` that this module serves on 8150. */
export const reportMethod = methodPath(Reports.method.report)

export interface ReportsComponents {
  readonly agentConfig: Pick<KasHost['agentConfig'], 'newest' | 'onChange' | 'file'>
  /** absent: only labels assign objects to environments */
  readonly localDirectory: Pick<LocalDirectory, 'environmentsOf'> | undefined
  readonly facts: ReportedFacts
  readonly clock: Clock
  readonly log: Logger
}

export interface ReportsOptions {
  /** upstream's agent.configuration.poll_period: the longest that an invalid token goes unnoticed, in ms */
  readonly pollMs: number
  /** time until a file that could not be read is tried again, in ms */
  readonly retryMs?: number
}

const defaults = { retryMs: 10_000 }

/**
 * Receives facts from the leading pod about its cluster, and sends it the configuration of its views. It sends at once
 * and after each commit that changes the configuration, until the connection retires (doc/guide/views.md).
 */
export function serveReports(
  components: ReportsComponents,
  options: ReportsOptions,
): (call: AgentCall) => Promise<void> {
  return (call) => new ReportStream(components, { ...defaults, ...options }, call).run()
}

/** One running stream. */
class ReportStream {
  readonly #components: ReportsComponents
  readonly #options: Required<ReportsOptions>
  readonly #call: AgentCall
  #changed = Promise.withResolvers<void>()
  #hasLeft = false
  /** commit whose `views.yaml` was read last */
  #commit: string | undefined
  /** the last valid configuration, as JSON; undefined: there is none, or views are off */
  #good: string | undefined
  /** problem of the last read; undefined: none */
  #problem: string | undefined
  /** content that was sent last, as text */
  #sent: string | undefined

  constructor(components: ReportsComponents, options: Required<ReportsOptions>, call: AgentCall) {
    this.#components = components
    this.#options = options
    this.#call = call
  }

  async run(): Promise<void> {
    const { agentConfig, facts } = this.#components
    const { agent, signal, retired } = this.#call
    const wake = () => this.#changed.resolve()
    const detach = [agentConfig.onChange(agent, wake), this.#call.onDirectoryChange(wake)]
    signal.addEventListener('abort', wake, { once: true })
    retired.addEventListener('abort', wake, { once: true })
    this.#call.sendMetadata({})
    const reading = this.#readFacts()
    const leave = () => {
      this.#hasLeft = true
      wake()
    }
    reading.then(leave, leave)
    try {
      await this.#push()
      if (this.#hasLeft) await reading // its error ends the stream
      signal.throwIfAborted()
    } finally {
      signal.removeEventListener('abort', wake)
      retired.removeEventListener('abort', wake)
      for (const undo of detach) undo()
      this.#hasLeft = true
      facts.forget(this.#call)
    }
  }

  get #hasEnded(): boolean {
    return this.#hasLeft || this.#call.signal.aborted || this.#call.retired.aborted
  }

  /** Reads facts until the agent half-closes. @throws KasError INVALID_MESSAGE */
  async #readFacts(): Promise<void> {
    const { facts } = this.#components
    for await (const bytes of this.#call.messages) {
      const request: ReportRequest = decodeMessage(ReportRequestSchema, bytes)
      if (request.facts && !this.#hasEnded) facts.learn(this.#call, request.facts)
    }
  }

  async #push(): Promise<void> {
    const { clock } = this.#components
    const { pollMs, retryMs } = this.#options
    while (!this.#hasEnded) {
      this.#changed = Promise.withResolvers() // first, so that no change is missed
      let isRead = false
      const ended = linkedController(this.#call.signal, this.#call.retired)
      try {
        await abortable(this.#call.stillValid(), ended.signal)
        isRead = await this.#sendNew(ended.signal)
      } catch (error) {
        if (!this.#call.retired.aborted || this.#call.signal.aborted) throw error
      } finally {
        ended.dispose()
      }
      if (this.#hasEnded) return
      const cancel = clock.after(isRead ? pollMs : Math.min(retryMs, pollMs), this.#changed.resolve)
      await this.#changed.promise
      cancel()
    }
  }

  /** @returns true if the agent has the newest configuration */
  async #sendNew(signal: AbortSignal): Promise<boolean> {
    const { agentConfig } = this.#components
    const { agent } = this.#call
    try {
      const commit = (await agentConfig.newest(agent, signal, false))?.commit
      if (commit !== this.#commit || this.#sent === undefined) {
        if (commit === undefined) this.#good = undefined
        this.#problem = commit === undefined ? undefined : await this.#read(commit, signal)
        this.#commit = commit
      }
      await this.#send()
      return true
    } catch (error) {
      const { code } = KasError.from(error)
      // the error is of the other file, whose reader reports it; a commit that fixes it is a change
      if (code === 'CONFIGURATION_INVALID' || code === 'REF_NOT_FOUND') return true
      if (code === 'REPOSITORY_FAILED') return false
      throw error
    }
  }

  /** @returns the problem of the file; undefined: none. @throws KasError REPOSITORY_FAILED, or the signal's reason */
  async #read(commit: Parameters<KasHost['agentConfig']['file']>[1], signal: AbortSignal): Promise<string | undefined> {
    const { agentConfig, log } = this.#components
    const { agent } = this.#call
    try {
      this.#good = await agentConfig.file(agent, commit, viewsFile, signal)
      return undefined
    } catch (error) {
      const failure = KasError.from(error)
      if (failure.code !== 'CONFIGURATION_INVALID') throw error
      log.warn({ agent_id: String(agent.id), commit_id: commit, error }, 'What views show cannot be read')
      return failure.message
    }
  }

  async #send(): Promise<void> {
    const environments = [...(this.#components.localDirectory?.environmentsOf(this.#call.agent.id) ?? [])]
    const text = JSON.stringify([this.#good, this.#problem, environments])
    if (text === this.#sent) return
    const value = {
      ...(this.#good === undefined ? {} : { block: Buffer.from(this.#good), environments }),
      ...(this.#problem === undefined ? {} : { problem: this.#problem }),
    }
    const response = create(ReportResponseSchema, { what: { case: 'configuration', value } })
    await this.#call.send(toBinary(ReportResponseSchema, response))
    this.#sent = text
  }
}

const states = ['live', 'syncing', 'stale'] as const

interface Reported {
  readonly agentId: AgentId
  readonly kinds: number
  readonly objects: number
  readonly state: (typeof states)[number]
  readonly rulesAside: readonly string[]
}

/** Health rules that one agent names. */
const maxRulesAside = 10
/** characters of the text about such a rule */
const maxRuleText = 256
/** lines of `kas status` about such rules */
const maxRuleLines = 20

/** Facts of leading pods about their clusters, while their streams to this replica are open. */
export class ReportedFacts {
  readonly #byCall = new Map<AgentCall, Reported>()

  /** Replaces the facts of a stream. */
  learn(call: AgentCall, { kinds, objects, state, rulesAside: named }: Facts): void {
    const known = states.find((each) => each === state) ?? 'stale'
    const rulesAside = named.slice(0, maxRulesAside).map((text) => printable(text.slice(0, maxRuleText)))
    this.#byCall.set(call, { agentId: call.agent.id, kinds, objects, state: known, rulesAside })
  }

  /** Drops the facts of a stream that has ended. */
  forget(call: AgentCall): void {
    this.#byCall.delete(call)
  }

  /** Returns lines of `kas status`. */
  lines(): StatusLine[] {
    const all = [...this.#byCall.values()]
    const sum = (of: (one: Reported) => number) => all.reduce((total, one) => total + of(one), 0)
    return [
      ['agents that report', new Set(all.map(({ agentId }) => agentId)).size],
      ...states.map((state): StatusLine => [`of them ${state}`, all.filter((one) => one.state === state).length]),
      ['kinds', sum(({ kinds }) => kinds)],
      ['objects', sum(({ objects }) => objects)],
      ...this.#asideLines(all),
    ]
  }

  #asideLines(all: readonly Reported[]): StatusLine[] {
    const lines = all.flatMap(({ agentId, rulesAside }) =>
      rulesAside.map((text): StatusLine => [`agent ${agentId}, rule of health put aside`, text]),
    )
    if (lines.length <= maxRuleLines) return lines
    return [...lines.slice(0, maxRuleLines), ['and more such rules', lines.length - maxRuleLines]]
  }
}
