import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { get } from 'node:https'
import { text } from 'node:stream/consumers'
import type { ApiClient, KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { nodeName } from '../../../dev/control-plane/simulated-kubelet.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { Row, Update } from '../../../src/proto/views-json.ts'
import type { Findings, Stage } from '../scene.ts'
import { mergePatch } from './merge-patch.ts'
import { letAgentkRead, rbac, readers, type ViewsGround } from './views-ground.ts'

/** a view shows no more rows than this of each, with what else is in a namespace */
const podsOfNamespace = 200
/** of those, what comes and goes with each fault */
const changedPods = 10
const runningMs = 600_000
/** until what is shown equals the list; a kind that is forbidden is tried again after five minutes. ms */
const equalMs = 420_000
const againMs = 500
/** for the store to forget what was. ms */
const compactionMs = 12_000

/** Kinds whose records are compared, with the path of their collections. */
const kinds: Readonly<Record<string, (namespace: string) => string>> = {
  Pod: (namespace) => `/api/v1/namespaces/${namespace}/pods`,
  ConfigMap: (namespace) => `/api/v1/namespaces/${namespace}/configmaps`,
  'apps/Deployment': (namespace) => `/apis/apps/v1/namespaces/${namespace}/deployments`,
  'apps/ReplicaSet': (namespace) => `/apis/apps/v1/namespaces/${namespace}/replicasets`,
}

/** so that a watch can be too old within seconds */
export const recordsFlags = ['--etcd-compaction-interval=5s']

interface Fault {
  readonly name: string
  /** @param change - what the records are not told of */
  play(ground: ViewsGround, change: () => Promise<void>, signal: AbortSignal): Promise<void>
}

const faults: readonly Fault[] = [
  {
    name: 'no fault',
    play: (_, change) => change(),
  },
  {
    name: 'restart of the API server',
    async play(ground, change) {
      await ground.controlPlane.restartApiServer({ abruptly: true })
      await change()
    },
  },
  {
    name: 'compaction',
    async play(ground, change, signal) {
      const pod = await ground.leadingPod()
      await change()
      pod.signal('SIGSTOP')
      try {
        await delay(compactionMs, signal)
        await change()
      } finally {
        pod.signal('SIGCONT')
      }
    },
  },
  {
    // the new server has no events of the past: a watch that would go on from there gets a 410
    name: 'a 410',
    async play(ground, change) {
      const pod = await ground.leadingPod()
      pod.signal('SIGSTOP')
      try {
        await change()
        await ground.controlPlane.restartApiServer({ abruptly: true })
      } finally {
        pod.signal('SIGCONT')
      }
    },
  },
  {
    name: 'rights withdrawn and given back',
    async play(ground, change) {
      await ground.admin.request(`${rbac}/clusterrolebindings/${readers}`, { method: 'DELETE' })
      await ground.controlPlane.restartApiServer({ abruptly: true }) // rights are asked for when a watch begins
      await change()
      await untilShown('nothing', async () => (await shownIn(ground, namespaceName(0))) === '')
      await letAgentkRead(ground.admin)
    },
  },
]

/** Records of real Pods, after each fault: what is shown equals what the API server lists. */
export async function recordsAndFaults(
  ground: ViewsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { pods }: { pods: number },
): Promise<Findings> {
  const { admin } = ground
  const namespaces = Array.from({ length: Math.ceil(pods / podsOfNamespace) }, (_, i) => namespaceName(i))
  for (const [i, namespace] of namespaces.entries()) {
    await admin.create('/api/v1/namespaces', { metadata: { name: namespace } })
    const replicas = Math.min(podsOfNamespace, pods - i * podsOfNamespace)
    await admin.create(`/apis/apps/v1/namespaces/${namespace}/deployments`, deployment(replicas))
  }
  for (const namespace of namespaces) await untilReady(admin, namespace, signal)
  say(`${pods} Pods run`)
  const seen: string[] = []
  const failures: string[] = []
  let changes = 0
  for (const { name, play } of faults) {
    await play(ground, () => change(admin, namespaces, ++changes), signal)
    const began = performance.now()
    for (const namespace of namespaces) await untilReady(admin, namespace, signal)
    const unequal: string[] = []
    for (const namespace of namespaces) {
      const equal = async () => (await shownIn(ground, namespace)) === (await listed(admin, namespace))
      const error = await untilShown('the list', equal).catch((failure: Error) => failure)
      if (error) unequal.push(`${name}: ${namespace}: ${error.message}`)
    }
    const line = `${name}: equal in ${namespaces.length - unequal.length} of ${namespaces.length} namespaces after ${((performance.now() - began) / 1000).toFixed(1)} s`
    say(line)
    seen.push(line)
    failures.push(...unequal)
  }
  return { figures: [`records: ${pods} Pods; ${seen.join('; ')}`], failures }
}

const namespaceName = (i: number) => `many-${i}`

async function untilShown(what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + equalMs
  let problem = ''
  const holdsNow = () =>
    holds().catch((error: Error) => {
      problem = error.message
      return false
    })
  while (!(await holdsNow())) {
    if (performance.now() > end) throw new Error(`what is shown is not ${what} after ${equalMs} ms ${problem}`)
    await delay(againMs)
  }
}

/** Pods go and others come, in each namespace; objects of a kind without rules too. */
async function change(admin: ApiClient, namespaces: readonly string[], number: number): Promise<void> {
  for (const namespace of namespaces) {
    const pods = await admin.get(`/api/v1/namespaces/${namespace}/pods?limit=${changedPods}`)
    const gone = pods.items as KubernetesObject[]
    const paths = gone.map(({ metadata }) => `/api/v1/namespaces/${namespace}/pods/${metadata.name}`)
    await Promise.all(paths.map((path) => admin.request(`${path}?gracePeriodSeconds=0`, { method: 'DELETE' })))
    await admin.create(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: `map-${number}` } })
    if (number > 1) {
      await admin.request(`/api/v1/namespaces/${namespace}/configmaps/map-${number - 1}`, { method: 'DELETE' })
    }
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments/app`
    await mergePatch(admin, path, { metadata: { labels: { changed: String(number) } } })
  }
}

/** All Pods of the namespace run. */
function untilReady(admin: ApiClient, namespace: string, signal: AbortSignal): Promise<unknown> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(runningMs)])
  const isReady = ({ spec, status }: KubernetesObject) => status.readyReplicas === spec.replicas
  return admin.until(`/apis/apps/v1/namespaces/${namespace}/deployments`, isReady, limit)
}

/** As the API server has it; one line an object. */
async function listed(admin: ApiClient, namespace: string): Promise<string> {
  const lines: string[] = []
  for (const [kind, path] of Object.entries(kinds)) {
    const { items } = await admin.get(path(namespace))
    for (const { metadata, status } of items as KubernetesObject[]) {
      const phase = kind === 'Pod' ? ` ${status.phase === 'Running' ? 'Healthy' : status.phase}` : ''
      lines.push(`${kind} ${metadata.name} ${metadata.uid}${phase}`)
    }
  }
  return lines.sort().join('\n')
}

/** As a view has it. @throws Error: it is not whole */
async function shownIn(ground: ViewsGround, namespace: string): Promise<string> {
  const { url, authorization, tls } = ground.endpoint('agent')
  const address = new URL(url)
  address.protocol = 'https:'
  const lists = [...Object.keys(kinds)].map((kind) => ['kind', kind])
  const query = [['view', 'list'], ['namespace', namespace], ['limit', '500'], ...lists] as [string, string][]
  address.search = String(new URLSearchParams(query))
  const asked = get(address, { ...tls, headers: { authorization }, agent: false })
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  const body = await text(response)
  if (response.statusCode !== 200) throw new Error(`a view: HTTP ${response.statusCode}: ${body}`)
  const { rows = [], pages } = JSON.parse(body) as Update
  const root = pages?.['']
  const byId = new Map(rows.map((row) => [row.u, row]))
  const shown = (root?.order ?? []).map((id) => byId.get(id) as Row)
  if (root?.more) throw new Error(`${root.more} rows more than the view shows`)
  const line = ({ k, n, u, h }: Row) => `${k} ${n} ${u}${k === 'Pod' ? ` ${h?.[0]}` : ''}`
  return shown.map(line).sort().join('\n')
}

function deployment(replicas: number) {
  const labels = { app: 'many' }
  const podSpec = { nodeName, terminationGracePeriodSeconds: 0, containers: [{ name: 'main', image: 'none' }] }
  return {
    metadata: { name: 'app' },
    spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: podSpec } },
  }
}
