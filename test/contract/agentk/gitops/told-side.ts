import { join } from 'node:path'
import type { Test } from 'tap'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { createServiceAccount } from '../../../../dev/control-plane/service-account.ts'
import type { ApiClient } from '../../../../src/agentk/cluster/api-client.ts'
import { parseMayImpersonate } from '../../../../src/agentk/cluster/may-impersonate.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { settleMs } from '../../../../src/agentk/modules/gitops/sources/source-runner.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { type Clock, systemClock } from '../../../../src/lib/clock.ts'
import { KeyedListeners, Listeners } from '../../../../src/lib/listeners.ts'
import { type DriftedObject, Phase, type SourceState } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { apiClient } from '../../../support/api-client.ts'
import { eventually } from '../../../support/eventually.ts'
import { identities } from '../../../support/identities.ts'
import { Kubectl } from '../../../support/kubectl.ts'
import { Processes } from '../../../support/processes.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { askForDrift, fieldText } from './drift-questions.ts'
import { DriftSide } from './drift-side.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf } from './ground.ts'
import type { Changers, ToldChange } from './told-changes.ts'
import { toldKey, toldKinds, toldManifest } from './told-manifests.ts'

/** A cluster with an audit log, kubectl, and an agentk with an account of its own, which acts as another. */

const deployer = { namespace: 'shop', name: 'deployer' }
const rbac = 'rbac.authorization.k8s.io'

/** Clock on which the first two minutes of a term end when the test says so: in them agentk makes objects again. */
class TermClock implements Clock {
  readonly #waiting = new Set<() => void>()

  now(): number {
    return systemClock.now()
  }

  after(ms: number, action: () => void): () => void {
    if (ms !== settleMs) return systemClock.after(ms, action)
    this.#waiting.add(action)
    return () => void this.#waiting.delete(action)
  }

  settle(): void {
    for (const action of this.#waiting) action()
    this.#waiting.clear()
  }
}

export interface ToldCluster extends Changers {
  readonly auditLogFile: string
  /** agentk's */
  readonly client: ApiClient
}

export async function startToldCluster(t: Test): Promise<ToldCluster> {
  const assets = process.env.KUBEBUILDER_ASSETS ?? ''
  const processes = await Processes.start(t)
  const auditLogFile = join(processes.folder, 'audit.log')
  const controlPlane = new ControlPlane({ assets, parts: 'api', auditLogFile })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const ground = await Ground.start(t, controlPlane)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const definition = keyOf('CustomResourceDefinition', widgetDefinition.metadata.name, '', 'apiextensions.k8s.io')
  await ground.create(definition, widgetDefinition)
  await eventually(async () => {
    await ground.readKinds()
    return ground.kinds.find(toldKey('Widget', '')) !== undefined
  })
  await ground.create(keyOf('RoleBinding', deployer.name, 'shop', rbac), {
    metadata: { name: deployer.name },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', ...deployer }],
  })
  const account = await createServiceAccount(controlPlane.admin, { namespace: 'gitops', name: 'agentk' })
  const { server, caFile } = controlPlane
  const token = controlPlane.signToken({ account, lifeMs: 3600_000 })
  const client = apiClient(t, { server, ca: { file: caFile }, token: { text: token } })
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: controlPlane.kubeconfig, namespace: 'shop' })
  return { ground, kubectl, drift: new DriftSide(ground), auditLogFile, client }
}

/** Change that was made. */
export interface MadeChange extends ToldChange {
  readonly key: ObjectKey
  readonly row: DriftedObject
  /** when kas received the row: ms since 1970 */
  readonly toldAt: number
}

export interface ToldSourceOptions {
  readonly projectId: bigint
  readonly drift: object
  readonly changes: readonly ToldChange[]
  /** number of objects, as many of each kind */
  readonly objects: number
  /** further objects, beside those */
  readonly more?: readonly Pick<ToldChange, 'kind' | 'git'>[]
}

/** A source whose objects others change. */
export class ToldSource {
  readonly cluster: ToldCluster
  readonly id: string
  readonly #options: ToldSourceOptions
  readonly #project: ProjectKas
  readonly #listeners = new Listeners()
  /** agentk has compared the object with this path */
  readonly #compared = new KeyedListeners<string>()
  /** by text of the row: when it was received first */
  readonly #toldAt = new Map<string, number>()
  #side: Awaited<ReturnType<typeof startGitops>> | undefined

  constructor(cluster: ToldCluster, options: ToldSourceOptions) {
    this.cluster = cluster
    this.#options = options
    this.#project = new ProjectKas(options.projectId)
    this.id = `42-${options.projectId}`
  }

  /** Starts agentk, and resolves when all objects are in the cluster. */
  async start(t: Test): Promise<void> {
    const { ground } = this.cluster
    const { drift, changes, more = [], objects } = this.#options
    const access_as = { service_account: deployer }
    const block = { id: 'platform/shop', default_namespace: 'shop', namespaces: ['shop'], access_as, drift }
    const may = { callers: new Set<string>(), kas: parseMayImpersonate([`serviceaccount:shop:${deployer.name}`]) }
    const clock = new TermClock()
    this.#project.onState = (state) => this.#received(state)
    const blocks = { manifest_projects: [block] }
    const accepted = identities({ may })
    this.#side = await startGitops(t, ground, this.#project, blocks, this.#client(), systemClock, clock, accepted)
    const files = new Map<string, string[]>(toldKinds.map((kind) => [kind, []]))
    for (const [i, { kind, git = (object: ObjectTree) => object }] of [...changes, ...more].entries()) {
      files.get(kind)?.push(JSON.stringify(git(toldManifest(kind, this.#nameOf(i)))))
    }
    for (const [kind, documents] of files) {
      while (documents.length < objects / files.size)
        documents.push(
          JSON.stringify(
            toldManifest(kind as (typeof toldKinds)[number], `u${this.#options.projectId}-${documents.length}`),
          ),
        )
    }
    this.#project.push(
      Object.fromEntries([...files].map(([kind, documents]) => [`${kind}.yaml`, documents.join('\n---\n')])),
    )
    await this.#eventually(({ phase, commit }) => phase === Phase.SYNCED && commit === this.#project.commit)
    const { comparedAtMs: before = 0n } = this.state ?? {}
    clock.settle()
    await this.#eventually(({ phase, comparedAtMs }) => phase === Phase.SYNCED && comparedAtMs > before)
  }

  stop(): Promise<void> {
    return this.#side?.stop() ?? Promise.resolve()
  }

  get state(): SourceState | undefined {
    return this.#project.states.findLast(({ source }) => source === this.id)
  }

  /** @param i - of the changes, then of the further objects */
  keyOf(i: number): ObjectKey {
    const { changes, more = [] } = this.#options
    const { kind } = [...changes, ...more][i] as ToldChange
    return toldKey(kind, this.#nameOf(i))
  }

  #nameOf(i: number): string {
    return `c${this.#options.projectId}-${i}`
  }

  /** Row of an object; undefined: it does not differ. */
  rowOf({ name }: ObjectKey): DriftedObject | undefined {
    return this.state?.drifted.find(({ key }) => key?.name === name)
  }

  /** Makes a change, and waits for the row that names it. @throws Error with the last row in its place */
  async make(i: number): Promise<MadeChange> {
    const change = this.#options.changes[i] as ToldChange
    const { kind, git = (object: ObjectTree) => object } = change
    const key = this.keyOf(i)
    await change.make(this.cluster, key, git(toldManifest(kind, key.name)))
    const wanted = this.#rowText(key, change)
    const onChange = (listener: () => void) => this.#listeners.add(listener)
    const toldAt = await eventually(() => this.#toldAt.get(wanted) ?? false, { onChange }).catch((cause) => {
      const row = this.rowOf(key)
      throw new Error(`no row "${wanted}", but "${row ? textOf(row) : 'none'}"; ${JSON.stringify(this.#side?.lines)}`, {
        cause,
      })
    })
    return { ...change, key, row: this.rowOf(key) as DriftedObject, toldAt }
  }

  /** Waits until the latest state is as wanted. @throws Error with that state */
  async #eventually(is: (state: SourceState) => boolean): Promise<void> {
    const onChange = (listener: () => void) => this.#listeners.add(listener)
    await eventually(() => this.state !== undefined && is(this.state), { onChange, timeoutMs: 60_000 }).catch(
      (cause) => {
        const shown = JSON.stringify(this.state, (_, one) => (typeof one === 'bigint' ? String(one) : one))
        throw new Error(`${shown.slice(0, 4000)} ${JSON.stringify(this.#side?.lines)}`, { cause })
      },
    )
  }

  /** Resolves when agentk has compared an object from now on: a GET of it ends each comparison. */
  compared(key: ObjectKey): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const remove = this.#compared.add(this.cluster.ground.path(key), () => {
      remove()
      resolve()
    })
    return promise
  }

  /** agentk's client. */
  #client(): ApiClient {
    const { client } = this.cluster
    const json: ApiClient['json'] = async (...request) => {
      const answer = await client.json(...request)
      const [method, path] = request
      if (method === 'GET') this.#compared.notify(path)
      return answer
    }
    const own = (name: string | symbol) => {
      const value = Reflect.get(client, name)
      return typeof value === 'function' ? value.bind(client) : value
    }
    return new Proxy(client, { get: (_, name) => (name === 'json' ? json : own(name)) })
  }

  /** Waits until an object has a row, or none. */
  async becomes(key: ObjectKey, { differs }: { readonly differs: boolean }): Promise<void> {
    await this.#eventually(() => (this.rowOf(key) !== undefined) === differs)
  }

  #received(state: SourceState): void {
    const at = Date.now()
    for (const row of state.drifted) {
      const text = textOf(row)
      if (!this.#toldAt.has(text)) this.#toldAt.set(text, at)
    }
    this.#listeners.notify()
  }

  /** Returns the text of the row that a change makes. */
  #rowText({ name }: ObjectKey, { fields }: ToldChange): string {
    const parts = fields.map(
      (field) => /^(?<kind>\w+) (?<path>\S+?)(?:\[password\])? .* by (?<by>.+)$/.exec(field)?.groups,
    )
    const isDeleted = parts[0]?.kind === 'gone'
    const paths = isDeleted ? [] : parts.map((part) => part?.path ?? '')
    const by = parts.map((part) => part?.by).find((one) => one !== 'unknown') ?? 'unknown'
    return rowText({ name, isDeleted, paths, by })
  }

  /** Asks for the values of all objects that differ. @returns texts of the fields by object name, as in a `ToldChange` */
  async values(): Promise<
    ReadonlyMap<string, { readonly fields: readonly string[]; readonly times: readonly string[] }>
  > {
    const { objects } = await askForDrift(this.#side?.methods() ?? new Map(), { source: this.id })
    return new Map(
      objects.map(({ object, field }) => {
        const name = object?.key?.name ?? ''
        const shown = (text: string) =>
          text
            .replaceAll(name, 'NAME')
            .replaceAll(`"${this.id}"`, '"SOURCE"')
            .replaceAll(/"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"/g, '"UID"')
            .replace(/(agent\.gitlab\.com\/digest) "[^"]+"/, '$1 "DIGEST"')
        return [name, { fields: field.map((one) => shown(fieldText(one))), times: field.map(({ time }) => time) }]
      }),
    )
  }
}

function textOf({ key, deleted, path, manager, operation }: DriftedObject): string {
  const by = manager ? `${manager} (${operation})` : 'unknown'
  return rowText({ name: key?.name ?? '', isDeleted: deleted, paths: path, by })
}

interface RowFacts {
  readonly name: string
  readonly isDeleted: boolean
  readonly paths: readonly string[]
  readonly by: string
}

function rowText({ name, isDeleted, paths, by }: RowFacts): string {
  return `${name}${isDeleted ? ' deleted' : ''} ${[...paths].sort().join(' ')} by ${by}`
}
