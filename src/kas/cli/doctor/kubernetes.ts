import { aheadByDate, clockFinding } from '../../../lib/doctor/clock-findings.ts'
import type { Found } from '../../../lib/doctor/findings.ts'
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
): Promise<Found[]> {
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

const noServices: Found = { state: 'skipped', text: 'cluster.discovery.kubernetes is not set' }

function withoutCluster(text: string, pod: PodGrace): Found[] {
  return [
    { state: 'skipped', text },
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

async function checkServices(client: ClusterClient, { services, namespace, config }: Wanted): Promise<Found[]> {
  const [slices, endpoints] = await Promise.all([
    mayFollow(client, 'endpointslices', { services, namespace }),
    mayFollow(client, 'endpoints', { services, namespace }),
  ])
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
  const api = client.config.makeApiClient(client.library.AuthorizationV1Api)
  const isSlices = kind === 'endpointslices'
  const right = { group: isSlices ? 'discovery.k8s.io' : '', resource: kind, namespace }
  // only Endpoints can be allowed by name
  const named = isSlices ? [right] : services.map((name) => ({ ...right, name }))
  const asked = ['list', 'watch'].flatMap((verb) => named.map((one) => ({ ...one, verb })))
  try {
    const reviews = asked.map((resourceAttributes) =>
      client.inTime(api.createSelfSubjectAccessReview({ body: { spec: { resourceAttributes } } })),
    )
    return (await Promise.all(reviews)).every(({ status }) => status?.allowed === true)
  } catch (error) {
    return { text: failureText(error), isDenied: statusOf(error) === 403 }
  }
}

function rightsFinding(namespace: string, slices: boolean | Unknown, endpoints: boolean | Unknown): Found {
  const subject = 'list, watch endpointslices.discovery.k8s.io'
  if (slices === true) return { state: 'ok', subject, text: `allowed in ${namespace}` }
  const role = 'apply the Role kas-discovery of deploy/kubernetes/kas/1-access.yaml, or that of the chart'
  if (endpoints === true) {
    const text = `not allowed in ${namespace}; Endpoints are, and are taken`
    return { state: 'note', subject, text, advice: role }
  }
  const unknown = [slices, endpoints].find((one) => typeof one === 'object')
  if (typeof unknown === 'object') {
    const advice = unknown.isDenied
      ? `let the account create selfsubjectaccessreviews, as ClusterRole system:basic-user does for all; and ${role}`
      : 'does the pod reach the API server, with the token of a service account that is there?'
    return { state: 'failed', subject, text: `it cannot be asked for: ${unknown.text}`, advice }
  }
  const text = `not allowed in ${namespace}, nor are Endpoints: no other replica is found`
  return { state: 'failed', subject, text, advice: role }
}

interface Service {
  readonly service: string
  readonly namespace: string
  readonly config: KasConfig
  readonly usable: Kind | undefined
}

interface Endpoints {
  readonly addresses: number
  readonly gossip: number | undefined
}

async function checkService(client: ClusterClient, { service, namespace, config, usable }: Service): Promise<Found> {
  const subject = `Service ${service}`
  if (!usable) return { state: 'skipped', subject, text: 'its endpoints cannot be listed' }
  let endpoints: Endpoints
  try {
    endpoints = await client.inTime(endpointsOf(client, { service, namespace, kind: usable }))
  } catch (error) {
    const text = `its ${usable}: ${failureText(error)}`
    return { state: 'failed', subject, text, advice: 'check the API server' }
  }
  const { addresses, gossip } = endpoints
  if (addresses === 0) {
    const advice = 'are its name and namespace right, and does its selector fit the pods of kas?'
    return { state: 'failed', subject, text: `it has no address in ${namespace}`, advice }
  }
  const { network, address } = config.cluster.listen
  const listen = parseListenAddress(network, address)
  const own = listen && 'port' in listen ? listen.port : undefined
  const has = `addresses of it: ${addresses}`
  if (gossip === undefined) {
    const advice = `name a port ${gossipPortName} in it, if it is another one`
    return { state: 'note', subject, text: `${has}; no port is named ${gossipPortName}: ${own} is taken`, advice }
  }
  if (gossip !== own) {
    const text = `${has}; its port ${gossipPortName} is ${gossip}, and cluster.listen.address has ${own}`
    return { state: 'failed', subject, text, advice: 'write the same port in both' }
  }
  return { state: 'ok', subject, text: `${has}; its port ${gossipPortName} is ${gossip}` }
}

async function endpointsOf(
  client: ClusterClient,
  { service, namespace, kind }: { readonly service: string; readonly namespace: string; readonly kind: Kind },
): Promise<Endpoints> {
  const { config, library } = client
  const gossipPort = (ports: readonly { readonly name?: string; readonly port?: number }[]) =>
    ports.findLast(({ name }) => name === gossipPortName)?.port
  if (kind === 'endpointslices') {
    const api = config.makeApiClient(library.DiscoveryV1Api)
    const labelSelector = `kubernetes.io/service-name=${service}`
    const { items } = await api.listNamespacedEndpointSlice({ namespace, labelSelector })
    const addresses = items.flatMap(({ endpoints }) => endpoints ?? []).flatMap((one) => one.addresses ?? [])
    return { addresses: addresses.length, gossip: gossipPort(items.flatMap(({ ports }) => ports ?? [])) }
  }
  const api = config.makeApiClient(library.CoreV1Api)
  const { items } = await api.listNamespacedEndpoints({ namespace, fieldSelector: `metadata.name=${service}` })
  const subsets = items.flatMap((one) => one.subsets ?? [])
  const addresses = subsets.flatMap((one) => [...(one.addresses ?? []), ...(one.notReadyAddresses ?? [])])
  return { addresses: addresses.length, gossip: gossipPort(subsets.flatMap(({ ports }) => ports ?? [])) }
}

async function checkClock(client: ClusterClient): Promise<Found> {
  const subject = 'API server'
  const api = client.config.makeApiClient(client.library.AuthorizationV1Api)
  const body = { spec: { nonResourceAttributes: { path: '/version', verb: 'get' } } }
  const sentAt = Date.now()
  let date: string | undefined
  try {
    const { headers } = await client.inTime(api.createSelfSubjectAccessReviewWithHttpInfo({ body }))
    date = headers.date ?? headers.Date
  } catch (error) {
    date = answeredDate(error) // also in a refusal
    if (date === undefined) return { check: 'clocks', state: 'skipped', subject, text: failureText(error) }
  }
  return clockFinding(subject, "the API server's", aheadByDate(date, { sentAt, receivedAt: Date.now() }))
}
