import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { get } from 'node:https'
import { text } from 'node:stream/consumers'
import type { ApiClient, KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { nodeName } from '../../../dev/control-plane/simulated-kubelet.ts'
import { urlBelow } from '../../../src/kas/command/endpoint.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { Row, Update } from '../../../src/proto/views-json.ts'
import type { Findings, Stage } from '../scene.ts'
import { atOnce } from './at-once.ts'
import { accepted, insisted } from './insisted.ts'
import { mergePatch } from './merge-patch.ts'
import { createNamespace } from './namespace.ts'
import { untilPodsRun } from './pods-run.ts'
import { letAgentkRead, rbac, readers, type ViewsGround } from './views-ground.ts'

/** Pods of a namespace; with all else in the namespace at most as many rows as a view shows */
const podsOfNamespace = 200
/** Pods that come and go with each fault */
const changedPods = 10
/** namespaces that are created, changed or compared at once */
const lanes = 4
/** share of the namespaces that exist when agentk's rights are withdrawn */
const firstShare = 0.2
/** limit until the rows equal the list; a forbidden kind is tried again after five minutes, a fifth more or less. ms */
const equalMs = 420_000
const againMs = 1000
/** namespaces that change while a pod is frozen: its lease outlasts the changes */
const fewNamespaces = lanes
/** limit for the store's compaction. ms */
const compactionMs = 60_000
const allPods = '/api/v1/pods'

/** Kinds whose records are compared, with the path of their collections. */
const kinds: Readonly<Record<string, (namespace: string) => string>> = {
  Pod: (namespace) => `/api/v1/namespaces/${namespace}/pods`,
  ConfigMap: (namespace) => `/api/v1/namespaces/${namespace}/configmaps`,
  'apps/Deployment': (namespace) => `/apis/apps/v1/namespaces/${namespace}/deployments`,
  'apps/ReplicaSet': (namespace) => `/apis/apps/v1/namespaces/${namespace}/replicasets`,
}

/** makes watches too old within seconds */
export const recordsFlags = ['--etcd-compaction-interval=5s']

interface Fault {
  readonly name: string
  /**
   * @param change - makes changes that the records do not get; of a few namespaces it takes no time
   * @returns description of the observed fault
   */
  play(ground: ViewsGround, change: (count?: number) => Promise<void>, signal: AbortSignal): Promise<string>
}

const faults: readonly Fault[] = [
  {
    name: 'no fault',
    async play(_, change) {
      await change()
      return ''
    },
  },
  {
    name: 'restart of the API server',
    async play(ground, change) {
      await ground.controlPlane.restartApiServer({ abruptly: true })
      await change()
      return ''
    },
  },
  {
    name: 'compaction',
    async play(ground, change, signal) {
      const pod = await ground.leadingPod()
      const version = await versionOf(ground.admin)
      await change()
      pod.signal('SIGSTOP')
      try {
        await change(fewNamespaces)
        return `HTTP ${await compacted(ground.admin, version, signal)} to a list of then${await leadOf(ground, pod)}`
      } finally {
        pod.signal('SIGCONT')
      }
    },
  },
  {
    // the new server has no events from before
    name: 'a 410',
    async play(ground, change, signal) {
      const pod = await ground.leadingPod()
      const version = await versionOf(ground.admin)
      pod.signal('SIGSTOP')
      try {
        await change(fewNamespaces)
        await ground.controlPlane.restartApiServer({ abruptly: true })
        const code = await codeOfWatch(ground.admin, version, signal)
        if (code !== 410) throw new Error(`a watch that goes on from then got ${code}, no 410`)
        return `${code} to a watch that goes on from then${await leadOf(ground, pod)}`
      } finally {
        pod.signal('SIGCONT')
      }
    },
  },
]

/** Compares records of real Pods after each fault: the rows equal the API server's list. */
export async function recordsAndFaults(
  ground: ViewsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { pods }: { pods: number },
): Promise<Findings> {
  const { admin } = ground
  const namespaces = Array.from({ length: Math.ceil(pods / podsOfNamespace) }, (_, i) => `many-${i}`)
  const seen: string[] = []
  const results: object[] = []
  const failures: string[] = []
  const create = async (some: readonly string[]) => {
    await atOnce(lanes, some, async (namespace) => {
      await createNamespace(admin, namespace, signal)
      const replicas = Math.min(podsOfNamespace, pods - namespaces.indexOf(namespace) * podsOfNamespace)
      await admin.create(`/apis/apps/v1/namespaces/${namespace}/deployments`, deployment(replicas))
    })
    await untilPodsRun(admin, some, signal)
  }
  const compare = async (name: string, some: readonly string[], told = '') => {
    const began = performance.now()
    let equal = 0
    await untilPodsRun(admin, some, signal)
    await atOnce(lanes, some, async (namespace) => {
      const isEqual = async () => (await shownIn(ground, namespace)) === (await listed(admin, namespace))
      const error = await untilShown('the list', isEqual, signal).catch((failure: Error) => failure)
      signal.throwIfAborted()
      if (error) failures.push(`${name}: ${namespace}: ${error.message}`)
      else equal += 1
    })
    const seconds = Math.round((performance.now() - began) / 100) / 10
    const text = `${name}${told && ` (${told})`}`
    const line = `${text}: equal in ${equal} of ${some.length} namespaces after ${seconds} s`
    results.push({ fault: name, told, equal, of: some.length, seconds })
    say(line)
    seen.push(line)
  }

  const first = namespaces.slice(0, Math.ceil(namespaces.length * firstShare))
  await create(first)
  say(`${Math.min(pods, first.length * podsOfNamespace)} Pods run`)
  await compare('at first', first)
  await ground.admin.request(`${rbac}/clusterrolebindings/${readers}`, { method: 'DELETE' })
  await ground.controlPlane.restartApiServer({ abruptly: true }) // rights are checked when a watch begins
  for (const namespace of first)
    await untilShown('nothing', async () => (await shownIn(ground, namespace)) === '', signal)
  say(`agentk's rights are withdrawn: no rows in ${first.length} of ${first.length} namespaces`)
  await letAgentkRead(ground.admin)
  await create(namespaces.slice(first.length)) // meanwhile agentk waits: it tries again after five minutes
  say(`${pods} Pods run`)
  await compare('rights withdrawn and given back', namespaces)
  let changes = 0
  for (const { name, play } of faults) {
    const told = await play(ground, (count) => change(admin, namespaces.slice(0, count), ++changes, signal), signal)
    await compare(name, namespaces, told)
  }
  return { figures: [`records: ${pods} Pods; ${seen.join('; ')}`], failures, data: { records: { pods, results } } }
}

/** Version from which a watch of Pods goes on now. */
async function versionOf(admin: ApiClient): Promise<string> {
  const { metadata } = await admin.get(`${allPods}?limit=1`)
  return metadata.resourceVersion
}

/** Resolves once the store has compacted that version. @returns the status of a list of it */
async function compacted(admin: ApiClient, version: string, signal: AbortSignal): Promise<number> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(compactionMs)])
  const path = `${allPods}?limit=1&resourceVersion=${version}&resourceVersionMatch=Exact`
  for (;;) {
    const { status } = await admin.request(path)
    if (status === 410) return status
    await delay(againMs, late)
  }
}

/** Status, or code of the first event, of a watch of Pods that goes on from there. */
async function codeOfWatch(admin: ApiClient, version: string, signal: AbortSignal): Promise<number> {
  const path = `${allPods}?watch=1&timeoutSeconds=5&resourceVersion=${version}`
  const { status, body } = await admin.request(path, { signal })
  const [line = ''] = body.split('\n')
  const event = line === '' ? undefined : JSON.parse(line)
  return event?.type === 'ERROR' ? event.object.code : status
}

async function untilShown(what: string, holds: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  const end = performance.now() + equalMs
  let problem = ''
  const holdsNow = () =>
    holds().catch((error: Error) => {
      problem = error.message
      return false
    })
  while (!(await holdsNow())) {
    if (performance.now() > end) throw new Error(`what is shown is not ${what} after ${equalMs} ms ${problem}`)
    await delay(againMs, signal)
  }
}

/** Replaces Pods, in each namespace; also objects of a kind without rules. */
function change(admin: ApiClient, namespaces: readonly string[], number: number, signal: AbortSignal): Promise<void> {
  return atOnce(lanes, namespaces, async (namespace) => {
    const maps = `/api/v1/namespaces/${namespace}/configmaps`
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments/app`
    const pods = await insisted(() => admin.get(`/api/v1/namespaces/${namespace}/pods?limit=${changedPods}`), signal)
    for (const { metadata } of pods.items as KubernetesObject[]) {
      const pod = `/api/v1/namespaces/${namespace}/pods/${metadata.name}?gracePeriodSeconds=0`
      await insisted(() => accepted(admin.request(pod, { method: 'DELETE' }), 404), signal)
    }
    const map = { metadata: { name: `map-${number}` } }
    await insisted(() => accepted(admin.request(maps, { method: 'POST', body: map }), 409), signal)
    const old = (await insisted(() => admin.get(maps), signal)).items as KubernetesObject[]
    for (const { metadata } of old) {
      if (!metadata.name.startsWith('map-') || metadata.name === map.metadata.name) continue
      await insisted(() => accepted(admin.request(`${maps}/${metadata.name}`, { method: 'DELETE' }), 404), signal)
    }
    await insisted(() => mergePatch(admin, path, { metadata: { labels: { changed: String(number) } } }), signal)
  })
}

/**
 * Names a change of leader after a freeze longer than the lease: the compared records are then another pod's, from its
 * first list.
 */
async function leadOf(ground: ViewsGround, pod: { readonly name: string }): Promise<string> {
  return (await ground.leadingPod()).name === pod.name ? '' : ', and another pod leads'
}

/** Objects of the namespace from the API server; one line an object. */
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

/** Objects of the namespace from a view. @throws Error if the view is incomplete */
async function shownIn(ground: ViewsGround, namespace: string): Promise<string> {
  const endpoint = ground.endpoint('job')
  const { authorization, tls } = endpoint
  const address = urlBelow(endpoint, '/views')
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
