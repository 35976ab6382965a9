import { parseApiVersion } from '../../../kubernetes/kind.ts'
import { collectionPath } from '../../../kubernetes/path.ts'
import { Backoff } from '../../../lib/backoff.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { linkedController } from '../../../lib/signals.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import { type Apis, resources } from './flux-apis.ts'
import { type GitRepository, type Receiver, readGitRepository, readReceiver } from './flux-objects.ts'
import { FluxWatch, type FluxWatchOptions } from './flux-watch.ts'
import { isPathLength, type NamedProject, ProjectChoice, projectPath } from './followed-projects.ts'
import type { HandledPushes } from './push-stream.ts'
import { pushTargets } from './receiver-choice.ts'
import { ReceiverKeeper } from './receiver-keeper.ts'
import { Webhooks, type WebhooksOptions } from './webhooks.ts'

export interface FluxWorkComponents {
  readonly api: Pick<ApiClient, 'json' | 'send'>
  /** true if this pod may act now; while false, pushes wait */
  readonly holds: () => boolean
  /** calls `onPush` with each push to the projects until the signal aborts */
  readonly follow: (
    projects: readonly string[],
    onPush: (project: string, id: bigint) => void,
    signal: AbortSignal,
  ) => Promise<void>
  readonly call: (webhookPath: string, signal: AbortSignal) => Promise<void>
  readonly handled: HandledPushes
  readonly onOutcome: (outcome: 'called' | 'failed') => void
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface FluxTimes {
  /** changes of Flux's objects within this time cause one reconciliation. ms */
  readonly settleMs: number
  /** time until a pod that may not act checks again: it may get no notice of a change. ms */
  readonly holdMs: number
  readonly watch: NonNullable<FluxWatchOptions['times']>
  readonly webhooks: Partial<WebhooksOptions>
}

export interface FluxWorkOptions {
  readonly apis: Apis
  readonly agentId: bigint
  /** URL of GitLab */
  readonly externalUrl: string
  readonly times: FluxTimes
}

interface NamedRepository extends NamedProject {
  readonly repository: GitRepository
}

/** Backoff after the API server failed to make or repair a Receiver. */
const keepBackoff = { firstMs: 5000, maxMs: 300_000, factor: 2, jitter: 1, resetMs: 600_000 }

/** Work of the leading pod while Flux is installed. */
export class FluxWork {
  readonly #components: FluxWorkComponents
  readonly #options: FluxWorkOptions
  readonly #repositories: FluxWatch<GitRepository>
  readonly #receivers: FluxWatch<Receiver>
  readonly #keeper: ReceiverKeeper
  readonly #keepBackoff: Backoff
  readonly #webhooks: Webhooks
  readonly #choice: ProjectChoice
  #signal: AbortSignal = AbortSignal.abort()
  #cancelSettling: (() => void) | undefined
  #cancelRetry: (() => void) | undefined
  #keeping: Promise<void> | undefined
  /** set when an object changes while `#keeping` runs */
  #keepAgain = false
  #following: { readonly projects: string; stop(): void } | undefined
  /** the current stream, and streams that are ending */
  readonly #streams = new Set<Promise<void>>()

  constructor(components: FluxWorkComponents, options: FluxWorkOptions) {
    const { api, holds, handled, log, clock, random } = components
    this.#components = components
    this.#options = options
    const watched = { client: api, log, clock, random, onChange: () => this.#changed() }
    this.#repositories = new FluxWatch({ ...watched, read: readGitRepository }, this.#watchOptions('repositories'))
    this.#receivers = new FluxWatch({ ...watched, read: readReceiver }, this.#watchOptions('receivers'))
    this.#keeper = new ReceiverKeeper({ client: api, holds, log, clock })
    this.#choice = new ProjectChoice({ log })
    this.#keepBackoff = new Backoff({ clock, random }, keepBackoff)
    const onAbandoned = (ids: readonly bigint[]) => ids.forEach((id) => void handled.remove(id))
    this.#webhooks = new Webhooks({ ...components, onAbandoned }, options.times.webhooks)
  }

  /** Resolves when the signal aborts, or Flux is removed. Called once. */
  async run(signal: AbortSignal): Promise<void> {
    const ending = linkedController(signal)
    this.#signal = ending.signal
    const watches = [this.#repositories.run(ending.signal), this.#receivers.run(ending.signal)]
    await Promise.race(watches)
    ending.abort()
    ending.dispose()
    this.#cancelSettling?.()
    this.#cancelRetry?.()
    this.#following?.stop()
    await Promise.all([...watches, this.#keeping, ...this.#streams, this.#webhooks.stop()])
  }

  #watchOptions(kind: 'repositories' | 'receivers'): FluxWatchOptions {
    const { apis, times } = this.#options
    const resource = { ...parseApiVersion(apis[kind]), plural: resources[kind] }
    const { plural, group } = resource
    return { path: collectionPath(resource), resource: `${plural}.${group}`, times: times.watch }
  }

  #changed(): void {
    if (!this.#repositories.isSynced || !this.#receivers.isSynced || this.#signal.aborted) return
    this.#cancelSettling ??= this.#components.clock.after(this.#options.times.settleMs, () => {
      this.#cancelSettling = undefined
      this.#reconcile()
    })
  }

  #reconcile(): void {
    const named = this.#named()
    this.#follow(this.#choice.choose([...named, ...this.#annotated()]))
    this.#keepAgain = this.#keeping !== undefined
    this.#keeping ??= this.#keep(named).finally(() => {
      this.#keeping = undefined
      if (this.#keepAgain && !this.#signal.aborted) this.#reconcile()
    })
  }

  /** Returns the GitRepositories whose URL is on this GitLab. */
  #named(): NamedRepository[] {
    return [...this.#repositories.objects.values()].flatMap((repository) => {
      const project = projectPath(repository.url, this.#options.externalUrl)
      return project === undefined ? [] : [{ repository, project, object: `GitRepository ${repository.key}` }]
    })
  }

  #annotated(): NamedProject[] {
    const annotated = [...this.#receivers.objects.values()].filter(({ project }) => project !== '')
    return annotated.map(({ key, project }) => ({ project, object: `Receiver ${key}` }))
  }

  async #keep(named: readonly NamedRepository[]): Promise<void> {
    const { log, clock } = this.#components
    const { apis, agentId, times } = this.#options
    this.#cancelRetry?.()
    this.#cancelRetry = undefined
    const again = (ms: number) => {
      this.#cancelRetry = clock.after(ms, () => this.#reconcile())
    }
    const wanted = named.filter(({ project }) => isPathLength(project)).map((each) => ({ ...each, agentId, apis }))
    try {
      const isWhole = await this.#keeper.reconcile(wanted, this.#receivers.objects, this.#signal)
      this.#keepBackoff.reset()
      if (!isWhole && !this.#signal.aborted) again(times.holdMs)
    } catch (error) {
      if (this.#signal.aborted) return
      log.warn({ error }, 'Cannot make or repair a Receiver of Flux, trying again')
      again(this.#keepBackoff.next())
    }
  }

  #follow(projects: readonly string[]): void {
    const key = projects.join('\n')
    if (this.#following?.projects === key) return
    this.#following?.stop()
    this.#following = undefined
    if (projects.length === 0) return
    const { log, follow } = this.#components
    log.debug({ count: projects.length }, 'Following pushes to projects')
    const stopping = linkedController(this.#signal)
    const onPush = (project: string, id: bigint) => this.#push(project, id)
    const done = follow(projects, onPush, stopping.signal).finally(() => this.#streams.delete(done))
    this.#streams.add(done)
    const stop = () => {
      stopping.abort()
      stopping.dispose()
    }
    this.#following = { projects: key, stop }
  }

  #push(project: string, id: bigint): void {
    const { handled, holds, log } = this.#components
    if (!handled.add(id)) return void log.debug({ project_id: project }, 'A push came again')
    if (!holds()) log.debug({ project_id: project }, 'A push waits until this pod leads again, or another does')
    const targets = pushTargets(project, {
      repositories: () => this.#repositories.objects,
      receivers: () => this.#receivers.objects,
      projectOf: ({ url }) => projectPath(url, this.#options.externalUrl),
      isDenied: (namespace) => this.#keeper.isDenied(namespace),
    })
    for (const target of targets) this.#webhooks.push(target, id)
    if (targets.length === 0) log.debug({ project_id: project }, 'Nothing of Flux is there for a push')
  }
}
