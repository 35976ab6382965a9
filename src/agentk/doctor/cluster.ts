import { builtIn } from '../../kubernetes/kind.ts'
import { collectionPath } from '../../kubernetes/path.ts'
import { type Ahead, aheadByDate, clockFinding } from '../../lib/doctor/clock-findings.ts'
import { type Found, failed } from '../../lib/doctor/findings.ts'
import { KasError } from '../../lib/errors.ts'
import { ApiClient } from '../cluster/api-client.ts'
import { loadCluster } from '../cluster/load-cluster.ts'
import { nextStepToApiServer } from '../cluster/next-step.ts'
import type { Config } from '../config/config.ts'
import { absentNamespaceStep } from '../election/lease-client.ts'
import { askKubernetesVersion } from '../modules/registrar/module.ts'
import { checkRight, forbidden, questionTimeoutMs } from './access-review.ts'
import { checkImpersonation } from './impersonation.ts'
import type { KasAnswer } from './kas.ts'

/** Timeout of connecting, in ms. It is shorter than a question's, so that no pending dial delays the end. */
const connectTimeoutMs = 8000
const blocks = 'the API server cannot be asked'

/**
 * Checks the API server, its clock, and the rights that agentk itself needs there. The rights that calls need depend on
 * the calls.
 *
 * @param kas - answer of kas; the Lease is named by the agent's id in it, and GitOps needs rights of its own
 */
export async function checkCluster(config: Config, kas: Promise<KasAnswer>): Promise<Found[]> {
  let api: ApiClient
  let ahead: Ahead | undefined
  const onDate = (date: string, waitedMs: number) => {
    const receivedAt = Date.now()
    ahead = aheadByDate(date, { sentAt: receivedAt - waitedMs, receivedAt })
  }
  try {
    api = new ApiClient(await loadCluster(config.cluster, config.env), { dialPatienceMs: 0, connectTimeoutMs, onDate })
  } catch (error) {
    return [{ ...failed((error as Error).message), blocks }]
  }
  try {
    const version = await checkVersion(api)
    if (version.blocks !== undefined) return [version]
    const { agentId, hasGitops } = await kas
    const rights = [
      ...(await checkLease(api, config.pod.namespace, agentId)),
      ...(await checkNamespace(api, config.pod.namespace)),
      ...(hasGitops ? [await checkApiServices(api)] : []),
      ...(await checkImpersonation(api, config.mayImpersonate)),
    ]
    const clock = clockFinding('API server', "the API server's", ahead)
    return [version, ...rights.map((one) => ({ ...one, check: 'rights' })), clock]
  } finally {
    await api.close()
  }
}

/** Checks the version. An account may lack the right to see it, and have all others. */
async function checkVersion(api: ApiClient): Promise<Found> {
  const { server } = api.access
  try {
    const { gitVersion, major, minor } = await askKubernetesVersion(api, AbortSignal.timeout(questionTimeoutMs))
    return { state: 'ok', text: `${server.host}: Kubernetes ${gitVersion || `${major}.${minor}`}` }
  } catch (error) {
    const advice = nextStepToApiServer(error, server) ?? 'check that the API server serves /version'
    const found = failed(`${server.host}: ${(error as Error).message}`, advice)
    const { spec } = KasError.from(error)
    return spec.code === 'UNREACHABLE' && spec.httpStatus === forbidden ? found : { ...found, blocks }
  }
}

async function checkLease(api: ApiClient, namespace: string, agentId: bigint | undefined): Promise<Found[]> {
  const leases = { group: 'coordination.k8s.io', resource: 'leases', namespace }
  const advice = 'without it no pod leads: allow it in the Role of the namespace'
  const denied = failed('not allowed', advice)
  const unknown = `${advice}; a Role that names the Lease of the agent is not seen here, as kas has not sent the id`
  return await Promise.all(
    ['get', 'create', 'update'].map((verb) => {
      if (verb === 'create') return checkRight(api, { ...leases, verb }, { denied }) // no Role limits it by name
      if (agentId !== undefined) return checkRight(api, { ...leases, verb, name: `agent-${agentId}-lock` }, { denied })
      return checkRight(api, { ...leases, verb }, { denied: { state: 'note', text: 'not allowed', advice: unknown } })
    }),
  )
}

/**
 * Creates a Lease as a dry run. An access review does not show that a Namespace is absent.
 *
 * @returns no finding if the Namespace exists, or if a right is missing, which has its own finding
 */
async function checkNamespace(api: ApiClient, namespace: string): Promise<Found[]> {
  const path = `${collectionPath(builtIn.leases, namespace)}?dryRun=All`
  const metadata = { generateName: 'agentk-doctor-' }
  const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata }
  const answer = await api.json('POST', path, lease, AbortSignal.timeout(questionTimeoutMs)).catch(() => undefined)
  if (answer?.status !== 404) return []
  return [failed(`the cluster has no Namespace ${namespace}`, absentNamespaceStep(namespace))]
}

/** Checks the right by which GitOps knows the APIs of other servers, to which it sends no dry run. */
function checkApiServices(api: ApiClient): Promise<Found> {
  const right = { verb: 'list', group: builtIn.apiServices.group, resource: builtIn.apiServices.plural }
  const advice =
    'without it GitOps sends dry runs of no kinds but those of Kubernetes: set rbac.gitops of the chart, or bind the ClusterRole of deploy/kubernetes/agentk-gitops'
  return checkRight(api, right, { denied: { state: 'note', text: 'not allowed', advice } })
}
