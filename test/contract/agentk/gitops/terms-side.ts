import type { Test } from 'tap'
import { settleMs } from '../../../../src/agentk/modules/gitops/sources/source-runner.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { Phase, type SourceState } from '../../../../src/proto/gen/gitops_states_pb.ts'
import type { DriftBlock, SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { SkippedClock } from '../../../support/skipped-clock.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { type Ground, keyOf } from './ground.ts'

/** Terms of agentk, one after another, for one source on a real API server. The test skips the time. */

type Files = Readonly<Record<string, string>>
type Client = Ground['client']

/** Entry of an inventory, as it is stored. */
interface StoredEntry {
  readonly name: string
  readonly drift?: { readonly since: number; readonly isDeleted?: boolean }
}

export const web = keyOf('Deployment', 'web', 'shop', 'apps')
export const map = (name: string) => keyOf('ConfigMap', name)

export const webFile = (image: string, more = '') => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, labels: { team: shop } }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      containers:
        - { name: web, image: "${image}", ports: [{ containerPort: 80 }, { containerPort: 81 }]${more} }
`
export const mapFile = (name: string, data: Readonly<Record<string, string>>) =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: ${name} }\ndata: ${JSON.stringify(data)}\n`

/** Change of the one container of `web`. */
export const container = (fields: object) => ({
  spec: { template: { spec: { containers: [{ name: 'web', ...fields }] } } },
})

interface Started {
  readonly pod: Awaited<ReturnType<typeof startGitops>>
  readonly clock: SkippedClock
  /** number of states that earlier pods have sent */
  readonly from: number
}

/** One source, with the objects `web` and ConfigMaps of the namespace shop. */
export class TermsSide {
  readonly id: string
  readonly project: ProjectKas
  /** the API server's clock, as all pods see it */
  readonly serverClock = new SkippedClock()
  readonly #t: Test
  readonly #ground: Ground
  readonly #block: SourceBlock
  #pods: Started[] = []

  private constructor(t: Test, ground: Ground, { projectId, block }: { projectId: bigint; block: SourceBlock }) {
    this.id = `42-${projectId}`
    this.project = new ProjectKas(projectId)
    this.#t = t
    this.#ground = ground
    this.#block = block
  }

  /** Starts the first pod with these files. The end of the test removes their objects. */
  static async start(
    t: Test,
    ground: Ground,
    { projectId, drift, files }: { projectId: bigint; drift: DriftBlock; files: Files },
    client?: Client,
  ): Promise<TermsSide> {
    const id = 'platform/shop'
    const block: SourceBlock = { id, default_namespace: 'shop', prune_propagation_policy: 'background', drift }
    const side = new TermsSide(t, ground, { projectId, block })
    t.teardown(() => side.#end())
    side.project.push(files)
    await side.lead(client)
    return side
  }

  /** Another pod leads from now on. An earlier one stays as it is. */
  async lead(client = this.#ground.client): Promise<void> {
    const clock = new SkippedClock()
    const from = this.project.states.length
    const block = { manifest_projects: [this.#block] }
    const pod = await startGitops(this.#t, this.#ground, this.project, block, client, this.serverClock, clock)
    this.#pods.push({ pod, clock, from })
    await this.synced()
  }

  /** The pod ends. */
  async stop(): Promise<void> {
    await this.#current.pod.stop()
  }

  /** The pod ends, and another one starts. */
  async restart(client?: Client): Promise<void> {
    await this.stop()
    await this.lead(client)
  }

  /** Another pod leads, while the one before is frozen and has not noticed it. */
  async changeLeader(): Promise<void> {
    this.#current.pod.lose()
    await this.lead()
  }

  /** Ends the time in which calls of an earlier leader may arrive. */
  async settle(): Promise<void> {
    const before = this.state?.comparedAtMs ?? 0n
    this.#current.clock.skip(settleMs)
    await this.becomes((now) => now?.phase === Phase.SYNCED && now.comparedAtMs > before)
  }

  /** Requests that what differs is written, as `kas gitops resync` does. */
  async resync(): Promise<void> {
    const sync = ofAgentk(`gitops-${this.id}-sync`)
    await eventually(async () => (await this.#ground.get(sync)) !== undefined)
    const annotations = { 'agent.gitlab.com/resync': String(this.serverClock.now()) }
    await this.#ground.merge(sync, { metadata: { annotations } })
  }

  /** Waits until the last request of `resync` is marked as done. */
  async marked(): Promise<void> {
    await eventually(async () => {
      const { annotations = {} } = (await this.#ground.get(ofAgentk(`gitops-${this.id}-sync`))).metadata
      return annotations['agent.gitlab.com/resynced'] === annotations['agent.gitlab.com/resync']
    })
  }

  /** Pushes files, and waits until they are applied. */
  async push(files: Files): Promise<void> {
    this.project.push(files)
    await this.synced()
  }

  /** Newest state that the current pod has sent. */
  get state(): SourceState | undefined {
    return this.project.states.slice(this.#current.from).findLast(({ source }) => source === this.id)
  }

  async synced(): Promise<void> {
    await this.becomes((now) => now?.phase === Phase.SYNCED && now.commit === this.project.commit)
  }

  /** Waits for a state, and names the one that stayed in its place. */
  async becomes(is: (state: SourceState | undefined) => boolean | undefined): Promise<void> {
    await eventually(() => is(this.state) ?? false).catch((cause) => {
      const shown = JSON.stringify(this.state, (_, one) => (typeof one === 'bigint' ? String(one) : one))
      throw new Error(`${shown} ${this.#current.pod.lines.join(' ')}`, { cause })
    })
  }

  /** Waits until exactly these objects are shown as drifted. @returns reasons for which they are left, by name */
  async drifted(...names: readonly string[]): Promise<Readonly<Record<string, string>>> {
    const nameOf = (one: { readonly key?: { readonly name: string } | undefined }) => one.key?.name ?? ''
    const wanted = [...names].sort().join()
    await this.becomes((now) => now?.drifted.map(nameOf).sort().join() === wanted)
    return Object.fromEntries((this.state?.drifted ?? []).map((one) => [nameOf(one), one.left]))
  }

  /** Returns the times at which drifted objects are corrected, by name. ms since the epoch */
  correctAt(): Readonly<Record<string, number>> {
    return Object.fromEntries((this.state?.drifted ?? []).map((one) => [one.key?.name ?? '', Number(one.correctAtMs)]))
  }

  /** Waits until the inventory records since when an object drifts. */
  async recorded(name: string): Promise<StoredEntry> {
    return await eventually(async () => {
      const entry = (await this.entries()).find((one) => one.name === name)
      return (entry?.drift?.since ?? 0) > 0 && (entry as StoredEntry)
    })
  }

  async entries(): Promise<readonly StoredEntry[]> {
    const { data } = await this.#ground.get(ofAgentk(`gitops-${this.id}-all`))
    return String(data.entries)
      .split('\n')
      .map((line) => JSON.parse(line) as StoredEntry)
  }

  /** Returns the image of `web`. */
  async image(): Promise<string> {
    return (await this.#ground.get(web)).spec.template.spec.containers[0].image
  }

  async becomesImage(image: string): Promise<void> {
    await eventually(async () => (await this.image()) === image)
  }

  /** Changes an object as a manager does, by a strategic merge patch. */
  async patch(key: ObjectKey, body: object, manager = 'kubectl-edit'): Promise<void> {
    await this.#send(key, body, 'strategic-merge-patch', `fieldManager=${manager}`)
  }

  /** Replaces a field, by a JSON patch that names no manager. */
  async replace(key: ObjectKey, path: string, value: unknown): Promise<void> {
    await this.#send(key, [{ op: 'replace', path, value }], 'json-patch', 'fieldManager=other')
  }

  async delete(key: ObjectKey): Promise<void> {
    const { status } = await this.#ground.client.json('DELETE', this.#ground.path(key))
    if (status !== 200) throw new Error(`${key.name}: ${status}`)
  }

  /** Applies an object as a pod of this source that was frozen: with its manager and marks, of an older commit. */
  async writeLate(key: ObjectKey, object: object): Promise<void> {
    const { labels, annotations } = (await this.#ground.get(key)).metadata
    const mark = 'agent.gitlab.com/inventory'
    const owner = 'config.k8s.io/owning-inventory'
    const metadata = {
      name: key.name,
      labels: { [mark]: labels[mark] },
      annotations: { [owner]: annotations[owner], 'agent.gitlab.com/digest': 'of an older commit' },
    }
    await this.#ground.apply(key, { ...object, metadata }, `agentk-${this.id}`)
  }

  async #send(key: ObjectKey, body: unknown, type: string, query: string): Promise<void> {
    const path = `${this.#ground.path(key)}?${query}`
    const options = { contentType: `application/${type}+json` }
    const answer = await this.#ground.client.json('PATCH', path, body, undefined, options)
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  }

  get #current(): Started {
    const current = this.#pods.at(-1)
    if (!current) throw new Error('no pod leads')
    return current
  }

  async #end(): Promise<void> {
    for (const { pod } of this.#pods) await pod.stop()
    const { client } = this.#ground
    for (const path of ['/apis/apps/v1/namespaces/shop/deployments', '/api/v1/namespaces/shop/configmaps'])
      await client.json(
        'DELETE',
        `${path}?labelSelector=${encodeURIComponent(`agent.gitlab.com/inventory=${this.id}`)}`,
      )
  }
}

/** ConfigMap in the namespace of agentk. */
function ofAgentk(name: string): ObjectKey {
  return keyOf('ConfigMap', name, 'gitops')
}
