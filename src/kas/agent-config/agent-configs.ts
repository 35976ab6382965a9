import { type Clock, systemClock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import type { Service } from '../../lib/service.ts'
import { abortable, linkedController } from '../../lib/signals.ts'
import { detached } from '../../lib/tracing/tracer.ts'
import type { Agent } from '../agent.ts'
import type { CommitId, Repositories } from '../repositories/repositories.ts'
import type { Trees } from '../repositories/tree.ts'
import { AgentConfigReader, type AgentConfiguration } from './agent-config-reader.ts'
import { type ConfigurationMetrics, noConfigurationMetrics } from './configuration-metrics.ts'
import type { FileSchema, ModuleSchemas } from './module-schema.ts'

export interface AgentConfigsComponents {
  readonly schemas: ModuleSchemas
  readonly repositories: Repositories & Pick<Trees, 'mayHave'>
  readonly log: Logger
  readonly clock?: Clock
  readonly metrics?: ConfigurationMetrics
  /** called after each read that failed without a fault of the file, from the third in a row on */
  readonly onUnreadable?: (agent: Agent) => void
}

export interface AgentConfigsOptions {
  /** upstream's agent.configuration.max_configuration_file_size, in bytes */
  readonly maxFileBytes?: number
  /** time without use after which a configuration is dropped. ms */
  readonly idleMs?: number
  /** bound of agents whose configuration is kept */
  readonly maxAgents?: number
  /** pause before a read that failed without a fault of the file is repeated; doubled each time, up to the last. ms */
  readonly retryMs?: readonly [first: number, last: number]
}

const defaults = {
  maxFileBytes: 131_072,
  idleMs: 600_000,
  maxAgents: 10_000,
  retryMs: [10_000, 60_000] as const, // doc/reference/tunnel-protocol.md 2.9
}

/** Failures in a row after which the file counts as unreadable. */
const failuresUntilUnreadable = 3

/** State of a configuration at this replica, for an agent whose pods ask for it. */
export interface FollowedConfig {
  readonly agent: Agent
  /** the newest successful read; undefined: none yet, or the repository is empty */
  readonly good: AgentConfiguration | undefined
  /** error of the newest read; undefined: it succeeded */
  readonly error: KasError | undefined
  /** end of the newest read, by the clock */
  readonly readAt: number
  /** True if all pods that ask for it have the feature. */
  hasFeature(feature: string): boolean
}

/** True if a pod has the feature. */
type HasFeature = (feature: string) => boolean

interface Entry {
  readonly agent: Agent
  readonly listeners: Listeners
  /** of each pod that asks for it */
  readonly pods: Set<HasFeature>
  readonly detach: () => void
  lastUsed: number
  /** the newest successful read; `undefined`: none yet, or the repository is empty */
  good: AgentConfiguration | undefined
  /** result of the newest read */
  newest: { readonly value: AgentConfiguration | undefined } | { readonly error: KasError } | undefined
  /** end of the newest read */
  readAt: number
  loading: Promise<void> | undefined
  loadAgain: boolean
  /** failures in a row without a fault of the file */
  failures: number
  cancelRetry: () => void
  isDropped: boolean
}

/**
 * Configuration of each agent, from its file at the head of the default branch, which is kept current while it is used.
 * A failed read never becomes an empty configuration.
 */
export class AgentConfigs implements Service {
  readonly #components: AgentConfigsComponents
  readonly #options: Required<AgentConfigsOptions>
  readonly #clock: Clock
  readonly #log: Logger
  /** by id and identity, the longest unused first */
  readonly #entries = new Map<string, Entry>()
  /** keys of entries, newest last */
  readonly #keys = new Map<Agent['id'], readonly string[]>()
  readonly #anyListeners = new Listeners<Agent>()
  readonly #stopped = new AbortController()
  readonly #reader: AgentConfigReader
  #cancelSweep: (() => void) | undefined

  constructor(components: AgentConfigsComponents, options: AgentConfigsOptions = {}) {
    const { repositories, schemas, clock = systemClock, metrics = noConfigurationMetrics } = components
    const log = components.log.child({ mod_name: 'configurations' })
    this.#components = components
    this.#options = { ...defaults, ...options }
    this.#clock = clock
    this.#log = log
    this.#reader = new AgentConfigReader({ repositories, schemas, clock, metrics, log }, this.#options)
  }

  async start(): Promise<void> {
    this.#scheduleSweep()
  }

  async stop(): Promise<void> {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    this.#cancelSweep?.()
    const loading = [...this.#entries.values()].map((entry) => entry.loading)
    for (const [key, entry] of this.#entries) this.#drop(key, entry)
    await Promise.all([...loading, this.#reader.stop()])
  }

  /**
   * Returns the newest configuration that could be read, for decisions on access. `undefined`: the repository is empty.
   *
   * @throws KasError of the read, if none ever succeeded
   */
  async current(agent: Agent, signal: AbortSignal): Promise<AgentConfiguration | undefined> {
    const entry = await this.#loaded(agent, signal, true)
    if (entry.good) return entry.good
    return resultOf(entry)
  }

  /**
   * Returns the result of the newest read, for the agent.
   *
   * @param isWanted - true: the caller has no configuration; else the first read may wait for others
   * @throws KasError of that read: CONFIGURATION_INVALID, REF_NOT_FOUND, REPOSITORY_FAILED
   */
  async newest(agent: Agent, signal: AbortSignal, isWanted = true): Promise<AgentConfiguration | undefined> {
    return resultOf(await this.#loaded(agent, signal, isWanted))
  }

  /**
   * Returns the result of `newest` after one more poll of the branch.
   *
   * @throws KasError as `newest`
   */
  async refreshed(agent: Agent, signal: AbortSignal): Promise<AgentConfiguration | undefined> {
    const entry = await this.#loaded(agent, signal, false)
    await abortable(this.#components.repositories.pollAndReport(agent.project.id), signal)
    if (entry.loading) await abortable(entry.loading, signal) // the branch has moved
    return resultOf(entry)
  }

  /**
   * Reads a module's own file at the commit of a configuration, as JSON. `undefined`: there is no such file. Each call
   * reads it again.
   *
   * @throws KasError CONFIGURATION_INVALID, REPOSITORY_FAILED; the signal's reason
   */
  async file(agent: Agent, commit: CommitId, schema: FileSchema, signal: AbortSignal): Promise<string | undefined> {
    this.#stopped.signal.throwIfAborted()
    const ended = linkedController(signal, this.#stopped.signal)
    try {
      return await this.#reader.readFile(agent, commit, schema, ended.signal)
    } finally {
      ended.dispose()
    }
  }

  /**
   * Calls `listener` after a read with a new result, until the returned function is called.
   *
   * @param pod - features of the pod that asks for the configuration; absent: no pod does
   */
  onChange(agent: Agent, listener: () => void, pod?: HasFeature): () => void {
    const entry = this.#entry(agent)
    const remove = entry.listeners.add(listener)
    if (pod) entry.pods.add(pod)
    return () => {
      remove()
      if (pod) entry.pods.delete(pod)
      entry.lastUsed = this.#clock.now()
    }
  }

  /** Does the same for all agents whose configuration is kept; it does not count as following them. */
  onAnyChange(listener: (agent: Agent) => void): () => void {
    return this.#anyListeners.add(listener)
  }

  /** Returns the state without a read; undefined: no listener follows it here, or it has not been read yet. */
  followed(agentId: Agent['id']): FollowedConfig | undefined {
    for (const key of this.#keys.get(agentId) ?? []) {
      const entry = this.#entries.get(key)
      if (!entry?.newest || entry.listeners.size === 0) continue
      const { agent, good, newest, readAt, pods } = entry
      const hasFeature = (feature: string) => [...pods].every((pod) => pod(feature))
      return { agent, good, error: 'error' in newest ? newest.error : undefined, readAt, hasFeature }
    }
    return undefined
  }

  /** States of all followed agents. */
  allFollowed(): FollowedConfig[] {
    return [...this.#keys.keys()].flatMap((agentId) => this.followed(agentId) ?? [])
  }

  async #loaded(agent: Agent, signal: AbortSignal, isWanted: boolean): Promise<Entry> {
    const entry = this.#entry(agent)
    if (!entry.newest) {
      const loading = entry.loading ?? this.#load(entry)
      if (isWanted) this.#components.repositories.hurry(agent)
      await abortable(loading, signal)
    }
    this.#stopped.signal.throwIfAborted()
    return entry
  }

  #entry(agent: Agent): Entry {
    this.#stopped.signal.throwIfAborted()
    const key = `${agent.id} ${agent.project.id} ${agent.name}`
    const known = this.#entries.get(key)
    if (known) {
      known.lastUsed = this.#clock.now()
      this.#entries.delete(key)
      this.#entries.set(key, known)
      return known
    }
    const detach = this.#components.repositories.onMove(agent, () => void this.#load(entry))
    const entry: Entry = {
      agent,
      detach,
      listeners: new Listeners(),
      pods: new Set(),
      lastUsed: this.#clock.now(),
      good: undefined,
      newest: undefined,
      readAt: 0,
      loading: undefined,
      loadAgain: false,
      failures: 0,
      cancelRetry: () => undefined,
      isDropped: false,
    }
    this.#entries.set(key, entry)
    this.#keys.set(agent.id, [...(this.#keys.get(agent.id) ?? []), key])
    this.#makeRoom(entry)
    return entry
  }

  #load(entry: Entry): Promise<void> {
    if (entry.loading) entry.loadAgain = true
    entry.loading ??= detached(() => this.#loadUntilCurrent(entry))
    return entry.loading
  }

  async #loadUntilCurrent(entry: Entry): Promise<void> {
    try {
      do {
        entry.loadAgain = false
        await this.#loadOnce(entry)
      } while (entry.loadAgain && !entry.isDropped && !this.#stopped.signal.aborted)
    } finally {
      entry.loading = undefined // before anything else, so that later calls begin a new read
    }
  }

  async #loadOnce(entry: Entry): Promise<void> {
    const before = entry.newest
    entry.cancelRetry()
    try {
      const value = await this.#reader.read(entry.agent, entry.good, this.#stopped.signal)
      entry.newest = { value }
      entry.good = value ?? entry.good
      entry.readAt = this.#clock.now()
      entry.failures = 0
    } catch (failure) {
      if (this.#stopped.signal.aborted) return
      entry.readAt = this.#clock.now()
      const error = KasError.from(failure)
      entry.newest = { error }
      if (error.code === 'CONFIGURATION_INVALID' || error.code === 'REF_NOT_FOUND') entry.failures = 0
      else this.#retryLater(entry)
      if (before && nameOf(before) === nameOf(entry.newest)) return
      const consequence = entry.good ? 'the last good one decides on access' : 'nobody has access by it'
      this.#log.warn({ agent_id: String(entry.agent.id), error }, `Agent configuration cannot be read, ${consequence}`)
    }
    if (!before || nameOf(before) === nameOf(entry.newest)) return
    entry.listeners.notify()
    this.#anyListeners.notify(entry.agent)
  }

  #retryLater(entry: Entry): void {
    if (entry.isDropped) return
    const [first, last] = this.#options.retryMs
    const ms = Math.min(first * 2 ** Math.min(entry.failures++, 16), last)
    entry.cancelRetry = this.#clock.after(ms, () => void this.#load(entry))
    if (entry.failures >= failuresUntilUnreadable) this.#components.onUnreadable?.(entry.agent)
  }

  #makeRoom(newest: Entry): void {
    if (this.#entries.size <= this.#options.maxAgents) return
    for (const [key, entry] of this.#entries) {
      if (entry.listeners.size > 0 || entry === newest) continue
      this.#drop(key, entry)
      return
    }
  }

  #scheduleSweep(): void {
    this.#cancelSweep = this.#clock.after(this.#options.idleMs, () => {
      const oldest = this.#clock.now() - this.#options.idleMs
      for (const [key, entry] of this.#entries) {
        if (entry.listeners.size === 0 && entry.lastUsed <= oldest) this.#drop(key, entry)
      }
      this.#scheduleSweep()
    })
  }

  #drop(key: string, entry: Entry): void {
    entry.isDropped = true
    entry.detach()
    entry.cancelRetry()
    this.#entries.delete(key)
    const keys = this.#keys.get(entry.agent.id)?.filter((other) => other !== key) ?? []
    if (keys.length === 0) this.#keys.delete(entry.agent.id)
    else this.#keys.set(entry.agent.id, keys)
  }
}

function resultOf({ newest }: Entry): AgentConfiguration | undefined {
  if (!newest) return undefined
  if ('error' in newest) throw newest.error
  return newest.value
}

function nameOf(result: NonNullable<Entry['newest']>): string {
  return 'error' in result ? result.error.message : (result.value?.commit ?? 'empty')
}
