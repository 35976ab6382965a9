import { hash } from 'node:crypto'
import type { Clock } from '../../lib/clock.ts'
import type { ConfigWarning } from '../../lib/config.ts'
import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import type { Agent } from '../agent.ts'
import type { CommitId, Repositories } from '../repositories/repositories.ts'
import type { Trees } from '../repositories/tree.ts'
import { type AgentConfigurationFile, parseAgentConfiguration } from './agent-config-file.ts'
import { withBlocks } from './agent-config-schema.ts'
import type { ConfigurationMetrics } from './configuration-metrics.ts'
import type { FileBeside } from './module-blocks.ts'
import { blocksOf, type FileSchema, type ModuleSchemas, type ReadBlock } from './module-schema.ts'
import { type ParsingAnswer, type ParsingJob, parsingAnswer } from './parsing-answer.ts'
import { ParsingThread } from './parsing-thread.ts'
import { ProjectTurns } from './project-turns.ts'

/** A configuration, with its commit. */
export interface AgentConfiguration {
  readonly commit: CommitId
  readonly configuration: AgentConfigurationFile
  /** true: the commit has no such file */
  readonly isAbsent?: boolean
  /** modules' blocks of the file, by key; absent: none */
  readonly blocks?: ReadonlyMap<string, ReadBlock> | undefined
  /** time at which the commit was seen as the head of the branch, by the clock */
  readonly seenAt: number
  /** time since which the files are unchanged, by the clock */
  readonly since: number
  /** digest of the files; absent: there are none */
  readonly digest?: string
}

export interface AgentConfigReaderComponents {
  readonly repositories: Pick<Repositories, 'head' | 'seenAt' | 'file'> & Pick<Trees, 'mayHave'>
  readonly clock: Clock
  readonly metrics: ConfigurationMetrics
  readonly log: Logger
  readonly schemas: ModuleSchemas
}

/**
 * Bound of files that are read in this thread: one of this length takes 30 ms at worst. A larger one needs a thread,
 * which has to be started.
 */
const maxBytesHere = 4096

/** Bound of keys that are logged separately, for each commit: the file's author may not be the operator. */
const maxLoggedWarnings = 50

/** A file at the head of the branch. */
interface FileAtHead {
  readonly commit: CommitId
  readonly seenAt: number
  readonly path: string
  /** undefined: there is no file */
  readonly bytes: Uint8Array | undefined
  readonly beside: readonly FileBeside[]
  /** digest of all files; undefined: there are none */
  readonly digest: string | undefined
}

/** Reads agents' configuration files. Files of one project wait for one another in proportion to their cost. */
export class AgentConfigReader {
  readonly #components: AgentConfigReaderComponents
  readonly #maxFileBytes: number
  readonly #turns: ProjectTurns
  readonly #thread: ParsingThread
  #absent: AgentConfigurationFile | undefined

  constructor(components: AgentConfigReaderComponents, { maxFileBytes }: { maxFileBytes: number }) {
    const { clock, metrics, schemas } = components
    this.#components = components
    this.#maxFileBytes = maxFileBytes
    this.#turns = new ProjectTurns(clock)
    withBlocks(blocksOf(schemas.list)) // throws at the start, not at each read, if two modules have the same block
    this.#thread = new ParsingThread({ clock, metrics }, { program: schemas.program, maxFileBytes })
  }

  /** Resolves once nothing runs. All reads must be aborted before. */
  async stop(): Promise<void> {
    await this.#thread.stop()
    this.#turns.stop()
  }

  /**
   * Returns the agent's file at the head of the default branch; `undefined`: the repository is empty. An absent or
   * unchanged file costs nothing, and does not wait. A project may have thousands of agents, and most commits change
   * none of their files.
   *
   * @param before - last configuration of this agent, read by the same blocks
   * @throws KasError CONFIGURATION_INVALID, REF_NOT_FOUND, REPOSITORY_FAILED; the signal's reason
   */
  async read(
    agent: Agent,
    before: AgentConfiguration | undefined,
    signal: AbortSignal,
  ): Promise<AgentConfiguration | undefined> {
    let first = await this.#fileAtHead(agent, signal)
    if (!first) return undefined
    if (first.digest === undefined) return this.#checked(agent, first, this.#withoutFile(), before)
    if (before && before.digest === first.digest) {
      this.#logWarnings(agent, first.commit, before.configuration.warnings)
      return { ...before, commit: first.commit, seenAt: first.seenAt }
    }
    const waits = () => {
      first = undefined
    }
    return await this.#inTurn(agent, { signal, waits }, async ({ parse }) => {
      const found = first ?? (await this.#fileAtHead(agent, signal))
      if (!found) return undefined
      const { path: file, bytes = new Uint8Array(), beside } = found
      const answer = await parse({ file, bytes, beside })
      return 'configuration' in answer ? this.#checked(agent, found, answer.configuration, before) : undefined
    })
  }

  /**
   * Returns a module's own file at that commit, as JSON. `undefined`: there is none.
   *
   * @throws KasError CONFIGURATION_INVALID, REPOSITORY_FAILED; the signal's reason
   */
  async readFile(
    agent: Agent,
    commit: CommitId,
    { name }: FileSchema,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const file = pathIn(agent, name)
    const read = () => this.#components.repositories.file(agent, commit, file, this.#maxFileBytes, signal)
    let first = await read()
    if (!first) return undefined
    const waits = () => {
      first = undefined
    }
    return await this.#inTurn(agent, { signal, waits }, async ({ parse }) => {
      const bytes = first ?? (await read())
      if (!bytes) return undefined
      const answer = await parse({ file, bytes, moduleFile: name })
      return 'json' in answer ? answer.json : undefined
    })
  }

  /**
   * Runs `work` in the project's turn.
   *
   * @param options.waits - called if it has to wait
   * @throws KasError as `read`, and the error of `work`
   */
  async #inTurn<T>(
    agent: Agent,
    { signal, waits }: { readonly signal: AbortSignal; readonly waits: () => void },
    work: (turn: { parse: (job: ParsingJob) => Promise<ParsingAnswer> }) => Promise<T>,
  ): Promise<T> {
    const { clock, metrics } = this.#components
    const turn = await this.#turns.take(agent.project, { signal, waits })
    if (turn.hadToWait) metrics.limited('turn')
    let costMs = 0
    const parse = async (job: ParsingJob) => {
      const began = clock.now()
      const answer = await this.#parse(job).catch((error) => {
        costMs = Math.max(0, clock.now() - began)
        throw error
      })
      costMs = answer.costMs
      if ('refusal' in answer) throw new KasError(answer.refusal)
      return answer
    }
    try {
      return await work({ parse })
    } finally {
      turn.end(costMs)
    }
  }

  /** Returns the configuration of an absent file, which is the same for all agents: no module has a block. */
  #withoutFile(): AgentConfigurationFile {
    this.#absent ??= parseAgentConfiguration('', new Uint8Array())
    return this.#absent
  }

  #checked(
    agent: Agent,
    { commit, seenAt, bytes, digest }: FileAtHead,
    configuration: AgentConfigurationFile,
    before: AgentConfiguration | undefined,
  ): AgentConfiguration {
    const blocks = new Map(Array.from(configuration.blocks, ([key, json]) => [key, this.#readBlock(key, json)]))
    this.#logWarnings(agent, commit, configuration.warnings)
    const since = before && before.digest === digest ? before.since : this.#components.clock.now()
    const read = {
      commit,
      configuration,
      seenAt,
      since,
      isAbsent: !bytes,
      blocks: blocks.size > 0 ? blocks : undefined,
    }
    return digest === undefined ? read : { ...read, digest }
  }

  #readBlock(key: string, json: string): ReadBlock {
    const value: unknown = JSON.parse(json)
    const { older, forAgents } = blocksOf(this.#components.schemas.list).find((one) => one.key === key) ?? {}
    const block = older?.block(value)
    const sent = forAgents ? JSON.stringify(forAgents(value)) : json
    return {
      json: sent,
      value,
      ...(older && block && { older: { feature: older.feature, json: JSON.stringify(block) } }),
    }
  }

  async #fileAtHead(agent: Agent, signal: AbortSignal): Promise<FileAtHead | undefined> {
    const { repositories, clock, schemas } = this.#components
    const commit = await repositories.head(agent, signal)
    if (!commit) return undefined
    const seenAt = repositories.seenAt(agent) ?? clock.now()
    const path = configurationPath(agent)
    const bytes = await repositories.file(agent, commit, path, this.#maxFileBytes, signal)
    const beside: FileBeside[] = []
    for (const { key, ownFile } of blocksOf(schemas.list)) {
      const own = ownFile === undefined ? undefined : await this.#fileBeside(agent, commit, ownFile, signal)
      if (own) beside.push({ key, ...own })
    }
    return { commit, seenAt, path, bytes, beside, digest: digestOf(bytes, beside) }
  }

  async #fileBeside(
    agent: Agent,
    commit: CommitId,
    name: string,
    signal: AbortSignal,
  ): Promise<Omit<FileBeside, 'key'> | undefined> {
    const { repositories } = this.#components
    const file = pathIn(agent, name)
    if (!(await repositories.mayHave(agent, commit, file, signal))) return undefined
    const bytes = await repositories.file(agent, commit, file, this.#maxFileBytes, signal)
    return bytes && { file, bytes }
  }

  async #parse(job: ParsingJob): Promise<ParsingAnswer> {
    const bytes = (job.beside ?? []).reduce((sum, one) => sum + one.bytes.length, job.bytes.length)
    return bytes > maxBytesHere ? this.#thread.parse(job) : parsingAnswer(job, this.#components.schemas.list)
  }

  #logWarnings(agent: Agent, commit: CommitId, warnings: readonly ConfigWarning[]): void {
    const { log } = this.#components
    const fields = { agent_id: String(agent.id), commit_id: commit }
    for (const { kind, key, hint } of warnings.slice(0, maxLoggedWarnings)) {
      const message =
        kind === 'unknown' ? 'Unknown key in an agent configuration' : 'Key without effect in an agent configuration'
      const mayWiden = /^(ci|user)_access\b/.test(key) && kind !== 'unserved'
      const level = mayWiden ? 'error' : 'warn' // keys about access may widen it if they are overlooked
      log[level]({ ...fields, key, hint }, message)
    }
    const count = warnings.length - maxLoggedWarnings
    if (count > 0) log.error({ ...fields, count }, 'And more keys like these')
  }
}

function digestOf(configuration: Uint8Array | undefined, beside: readonly FileBeside[]): string | undefined {
  if (!configuration && beside.length === 0) return undefined
  const digest = (bytes: Uint8Array) => hash('sha256', bytes, 'base64')
  return [
    configuration ? digest(configuration) : '',
    ...beside.map(({ key, bytes }) => `${key} ${digest(bytes)}`),
  ].join()
}

/** Returns the path of an agent's configuration in its project. */
export function configurationPath(agent: Pick<Agent, 'name'>): string {
  return pathIn(agent, 'config.yaml')
}

function pathIn({ name }: Pick<Agent, 'name'>, file: string): string {
  return `.gitlab/agents/${name}/${file}`
}
