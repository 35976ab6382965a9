import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { linkedController } from '../../../lib/signals.ts'
import { Backoff } from '../../backoff.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import { resources } from './flux-apis.ts'
import { type GitRepository, type Receiver, readGitRepository, readReceiver } from './flux-objects.ts'
import type { HandledPushes } from './handled-pushes.ts'
import { ObjectWatch, type ObjectWatchOptions } from './object-watch.ts'
import type { Apis, Wanted } from './own-receiver.ts'
import { projectPath } from './project-path.ts'
import { pushTargets } from './push-targets.ts'
import { ReceiverKeeper } from './receiver-keeper.ts'
import { Webhooks, type WebhooksOptions } from './webhooks.ts'

export interface FluxWorkComponents {
  readonly client: Pick<ApiClient, 'json' | 'send'>
  readonly holds: () => boolean
  /** hears of pushes until the signal aborts */
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
  /** what changes together is looked at as one, and so is the set of projects. ms */
  readonly settleMs: number
  readonly watch: NonNullable<ObjectWatchOptions['times']>
  readonly webhooks: Partial<WebhooksOptions>
}

export interface FluxWorkOptions {
  readonly apis: Apis
  readonly agentId: bigint
  /** of GitLab */
  readonly externalUrl: string
  readonly times: FluxTimes
}

/** kas refuses a stream with more. */
const maxProjects = 10_000
/** After the API server has failed to make or repair a Receiver. */
const keepBackoff = { firstMs: 5000, maxMs: 300_000, factor: 2, jitter: 1, resetMs: 600_000 }

/** What the pod that leads does where Flux is installed. */
export class FluxWork {
  readonly #components: FluxWorkComponents
  readonly #options: FluxWorkOptions
  readonly #repositories: ObjectWatch<GitRepository>
  readonly #receivers: ObjectWatch<Receiver>
  readonly #keeper: ReceiverKeeper
  readonly #keepBackoff: Backoff
  readonly #webhooks: Webhooks
  #signal: AbortSignal = AbortSignal.abort()
  #cancelLook: (() => void) | undefined
  #cancelRetry: (() => void) | undefined
  #keeping: Promise<void> | undefined
  /** what it looks at has changed meanwhile */
  #keepAgain = false
  #following: { readonly projects: string; stop(): void; readonly done: Promise<void> } | undefined

  constructor(components: FluxWorkComponents, options: FluxWorkOptions) {
    const { client, holds, handled, log, clock, random } = components
    this.#components = components
    this.#options = options
    const watched = { client, log, clock, random, onChange: () => this.#changed() }
    this.#repositories = new ObjectWatch({ ...watched, read: readGitRepository }, this.#watchOptions('repositories'))
    this.#receivers = new ObjectWatch({ ...watched, read: readReceiver }, this.#watchOptions('receivers'))
    this.#keeper = new ReceiverKeeper({ client, holds, log, clock })
    this.#keepBackoff = new Backoff({ clock, random }, keepBackoff)
    const onAbandoned = (ids: readonly bigint[]) => ids.forEach((id) => void handled.remove(id))
    this.#webhooks = new Webhooks({ ...components, onAbandoned }, options.times.webhooks)
  }

  /** Resolves when the signal aborts, or Flux is not there any more. Once. */
  async run(signal: AbortSignal): Promise<void> {
    const ending = linkedController(signal)
    this.#signal = ending.signal
    const watches = [this.#repositories.run(ending.signal), this.#receivers.run(ending.signal)]
    await Promise.race(watches)
    ending.abort()
    ending.dispose()
    this.#cancelLook?.()
    this.#cancelRetry?.()
    this.#following?.stop()
    this.#webhooks.stop()
    await Promise.all([...watches, this.#keeping, this.#following?.done])
  }

  #watchOptions(kind: 'repositories' | 'receivers'): ObjectWatchOptions {
    const { apis, times } = this.#options
    const resource = resources[kind]
    const [group] = apis[kind].split('/')
    return { path: `/apis/${apis[kind]}/${resource}`, resource: `${resource}.${group}`, times: times.watch }
  }

  #changed(): void {
    if (!this.#repositories.isSynced || !this.#receivers.isSynced || this.#signal.aborted) return
    this.#cancelLook ??= this.#components.clock.after(this.#options.times.settleMs, () => {
      this.#cancelLook = undefined
      this.#look()
    })
  }

  #look(): void {
    const all = this.#wanted()
    const annotated = [...this.#receivers.objects.values()].map(({ project }) => project).filter(Boolean)
    this.#follow([...new Set([...all.map(({ project }) => project), ...annotated])].sort())
    this.#keepAgain = this.#keeping !== undefined
    this.#keeping ??= this.#keep().finally(() => {
      this.#keeping = undefined
      if (this.#keepAgain) this.#look()
    })
  }

  /** The GitRepositories of this GitLab. */
  #wanted(): Wanted[] {
    const { apis, agentId, externalUrl } = this.#options
    return [...this.#repositories.objects.values()].flatMap((repository) => {
      const project = projectPath(repository.url, externalUrl)
      return project === undefined ? [] : [{ repository, project, agentId, apis }]
    })
  }

  async #keep(): Promise<void> {
    const { log, clock } = this.#components
    this.#cancelRetry?.()
    this.#cancelRetry = undefined
    try {
      await this.#keeper.look(this.#wanted(), this.#receivers.objects, this.#signal)
      this.#keepBackoff.reset()
    } catch (error) {
      if (this.#signal.aborted) return
      log.warn({ error }, 'Cannot make or repair a Receiver of Flux, trying again')
      this.#cancelRetry = clock.after(this.#keepBackoff.next(), () => this.#look())
    }
  }

  #follow(projects: readonly string[]): void {
    const key = projects.join('\n')
    if (this.#following?.projects === key) return
    this.#following?.stop()
    this.#following = undefined
    if (projects.length === 0) return
    const { log, follow } = this.#components
    if (projects.length > maxProjects) log.warn({ count: projects.length }, 'Too many projects, some are not followed')
    log.debug({ count: projects.length }, 'Following pushes to projects')
    const stopping = linkedController(this.#signal)
    const named = projects.slice(0, maxProjects)
    const done = follow(named, (project, id) => this.#push(project, id), stopping.signal)
    const stop = () => {
      stopping.abort()
      stopping.dispose()
    }
    this.#following = { projects: key, stop, done }
  }

  #push(project: string, id: bigint): void {
    const { handled, holds, log } = this.#components
    const isOurs = holds()
    if (!isOurs || !handled.add(id)) {
      log.debug({ project_id: project }, isOurs ? 'A push was told again' : 'A push is left to the pod that leads')
      return
    }
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
