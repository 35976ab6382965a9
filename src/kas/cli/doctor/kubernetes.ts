import type { V1ResourceAttributes } from '@kubernetes/client-node'
import { type Ahead, aheadByDate, clockFinding } from '../../../lib/clock-findings.ts'
import type { Finding } from '../../../lib/findings.ts'
import { runsInCluster } from '../../../membership/discovery/create-sources.ts'
import { ClusterClient } from '../../../membership/discovery/kubernetes/cluster-client.ts'
import { gossipPortName } from '../../../membership/discovery/kubernetes/endpoint-addresses.ts'
import { answeredDate, failureText, statusOf } from '../../../membership/discovery/kubernetes/failure.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import { parseListenAddress } from '../../config/listen-address.ts'
import { stopPatienceMs } from '../../config/stop-patience.ts'
import { checkGraces, graceByVariable, graceVariable, type PodGrace } from './graces.ts'

/** bound of each question. ms */
const requestTimeoutMs = 10_000

type Environment = Readonly<Record<string, string | undefined>>

/** Checks kas' use of the API server: rights, the Services for discovery, its pod, the clock. */
export async function checkKubernetes(
  config: KasConfig,
  options: {
    readonly env: Environment
    /** default: as kas, the cluster that this pod runs in */
    readonly open?: () => Promise<ClusterClient>
  },
): Promise<Finding[]> {
  const { env, open = () => ClusterClient.open({ requestTimeoutMs }) } = options
  const { kubernetes } = config.cluster.discovery
  const pod = { name: env.POD_NAME, variable: env[graceVariable], neededMs: stopPatienceMs(config) }
  if (!runsInCluster(env)) {
    const named = 'cluster.discovery.kubernetes has no effect: this process does not run in a pod'
    return withoutCluster(kubernetes ? named : 'this process does not run in a pod', pod)
  }
  let client: ClusterClient
  try {
    client = await open()
  } catch (error) {
    return withoutCluster((error as Error).message, pod)
  }
  try {
    const namespace = kubernetes?.namespace ?? client.namespace
    const services = kubernetes ? [kubernetes.service].flat() : []
    const found = await Promise.all([
      services.length > 0 ? checkServices(client, { services, namespace, config }) : [noServices],
      checkGraces(client, pod),
      checkClock(client),
    ])
    return found.flat()
  } finally {
    await client.close()
  }
}

const noServices: Finding = { check: 'kubernetes', state: 'skipped', text: 'cluster.discovery.kubernetes is not set' }

function withoutCluster(text: string, pod: PodGrace): Finding[] {
  return [
    { check: 'kubernetes', state: 'skipped', text },
    graceByVariable(pod, text),
    { check: 'clocks', state: 'skipped', subject: 'API server', text },
  ]
}

interface Wanted {
  readonly services: readonly string[]
  readonly namespace: string
  readonly config: KasConfig
}

type Kind = 'endpointslices' | 'endpoints'

async function checkServices(client: ClusterClient, { services, namespace, config }: Wanted): Promise<Finding[]> {
  const rights = await Promise.all(
    (['endpointslices', 'endpoints'] as const).map((kind) => mayFollow(client, kind, { services, namespace })),
  )
  const [slices, endpoints] = rights
  const usable: Kind | undefined = slices === true ? 'endpointslices' : endpoints === true ? 'endpoints' : undefined
  const found = await Promise.all(
    services.map((service) => checkService(client, { service, namespace, config, usable })),
  )
  return [rightsFinding(namespace, slices, endpoints), ...found]
}

/** Reason why it is unknown whether something is allowed. */
interface Unknown {
  readonly text: string
  /** true: the question itself is not allowed */
  readonly isDenied: boolean
}

async function mayFollow(
  client: ClusterClient,
  kind: Kind,
  { services, namespace }: Pick<Wanted, 'services' | 'namespace'>,
): Promise<boolean | Unknown> {
  const group = kind === 'endpointslices' ? 'discovery.k8s.io' : ''
  const names = kind === 'endpointslices' ? [undefined] : services // only Endpoints can be allowed by name
  const asked = ['list', 'watch'].flatMap((verb) => names.map((name) => ({ verb, name })))
  try {
    const answers = await Promise.all(
      asked.map(({ verb, name }) =>
        isAllowed(client, { verb, group, resource: kind, namespace, ...(name === undefined ? {} : { name }) }),
      ),
    )
    return answers.every((allowed) => allowed)
  } catch (error) {
    return { text: failureText(error), isDenied: statusOf(error) === 403 }
  }
}

async function isAllowed(client: ClusterClient, resourceAttributes: V1ResourceAttributes): Promise<boolean> {
  const api = client.config.makeApiClient(client.library.AuthorizationV1Api)
  const review = await client.inTime(api.createSelfSubjectAccessReview({ body: { spec: { resourceAttributes } } }))
  return review.status?.allowed === true
}

function rightsFinding(
  namespace: string,
  slices: boolean | Unknown | undefined,
  endpoints: boolean | Unknown | undefined,
): Finding {
  const check = 'kubernetes'
  const subject = 'list, watch endpointslices.discovery.k8s.io'
  if (slices === true) return { check, state: 'ok', subject, text: `allowed in ${namespace}` }
  const role = 'apply the Role kas-discovery of deploy/kubernetes/kas/1-access.yaml, or that of the chart'
  if (endpoints === true) {
    const text = `not allowed in ${namespace}; Endpoints are, and are taken`
    return { check, state: 'note', subject, text, advice: role }
  }
  const unknown = [slices, endpoints].find((one) => typeof one === 'object')
  if (typeof unknown === 'object') {
    const advice = unknown.isDenied
      ? `let the account create selfsubjectaccessreviews, as ClusterRole system:basic-user does for all; and ${role}`
      : 'does the pod reach the API server, with the token of a service account that is there?'
    return { check, state: 'failed', subject, text: `it cannot be asked for: ${unknown.text}`, advice }
  }
  const text = `not allowed in ${namespace}, nor are Endpoints: no other replica is found`
  return { check, state: 'failed', subject, text, advice: role }
}

interface Service {
  readonly service: string
  readonly namespace: string
  readonly config: KasConfig
  readonly usable: Kind | undefined
}

interface Endpoints {
  readonly addresses: number
  /** by name */
  readonly ports: Readonly<Record<string, number | undefined>>
}

async function checkService(client: ClusterClient, { service, namespace, config, usable }: Service): Promise<Finding> {
  const check = 'kubernetes'
  const subject = `Service ${service}`
  if (!usable) return { check, state: 'skipped', subject, text: 'its endpoints cannot be listed' }
  let endpoints: Endpoints
  try {
    endpoints = await client.inTime(endpointsOf(client, { service, namespace, kind: usable }))
  } catch (error) {
    const advice = 'check the API server'
    return { check, state: 'failed', subject, text: `its ${usable}: ${failureText(error)}`, advice }
  }
  const { addresses, ports } = endpoints
  if (addresses === 0) {
    const advice = 'are its name and namespace right, and does its selector fit the pods of kas?'
    return { check, state: 'failed', subject, text: `it has no address in ${namespace}`, advice }
  }
  const { network, address } = config.cluster.listen
  const listen = parseListenAddress(network, address)
  const own = listen && 'port' in listen ? listen.port : undefined
  const gossip = ports[gossipPortName]
  const has = `addresses of it: ${addresses}`
  if (gossip === undefined) {
    const advice = `name a port ${gossipPortName} in it, if it is another one`
    return {
      check,
      state: 'note',
      subject,
      text: `${has}; no port is named ${gossipPortName}: ${own} is taken`,
      advice,
    }
  }
  if (gossip !== own) {
    const text = `${has}; its port ${gossipPortName} is ${gossip}, and cluster.listen.address has ${own}`
    return { check, state: 'failed', subject, text, advice: 'write the same port in both' }
  }
  return { check, state: 'ok', subject, text: `${has}; its port ${gossipPortName} is ${gossip}` }
}

async function endpointsOf(
  client: ClusterClient,
  { service, namespace, kind }: { readonly service: string; readonly namespace: string; readonly kind: Kind },
): Promise<Endpoints> {
  const { config, library } = client
  const portsOf = (ports: readonly { name?: string; port?: number }[] = []) =>
    Object.fromEntries(ports.map(({ name = '', port }) => [name, port]))
  if (kind === 'endpointslices') {
    const labelSelector = `kubernetes.io/service-name=${service}`
    const { items } = await config
      .makeApiClient(library.DiscoveryV1Api)
      .listNamespacedEndpointSlice({ namespace, labelSelector })
    const addresses = items.flatMap(({ endpoints }) => endpoints ?? []).flatMap((one) => one.addresses ?? [])
    return { addresses: addresses.length, ports: Object.assign({}, ...items.map(({ ports }) => portsOf(ports ?? []))) }
  }
  const fieldSelector = `metadata.name=${service}`
  const { items } = await config.makeApiClient(library.CoreV1Api).listNamespacedEndpoints({ namespace, fieldSelector })
  const subsets = items.flatMap((one) => one.subsets ?? [])
  const addresses = subsets.flatMap((one) => [...(one.addresses ?? []), ...(one.notReadyAddresses ?? [])])
  return { addresses: addresses.length, ports: Object.assign({}, ...subsets.map(({ ports }) => portsOf(ports ?? []))) }
}

async function checkClock(client: ClusterClient): Promise<Finding> {
  const subject = 'API server'
  const api = client.config.makeApiClient(client.library.AuthorizationV1Api)
  const body = { spec: { nonResourceAttributes: { path: '/version', verb: 'get' } } }
  const sentAt = Date.now()
  try {
    const { headers } = await client.inTime(api.createSelfSubjectAccessReviewWithHttpInfo({ body }))
    const ahead: Ahead | undefined = aheadByDate(headers.date ?? headers.Date, { sentAt, receivedAt: Date.now() })
    return clockFinding(subject, "the API server's", ahead)
  } catch (error) {
    const date = answeredDate(error) // also in a refusal
    if (date === undefined) return { check: 'clocks', state: 'skipped', subject, text: failureText(error) }
    return clockFinding(subject, "the API server's", aheadByDate(date, { sentAt, receivedAt: Date.now() }))
  }
}
