import { builtIn } from '../../kubernetes/kind.ts'
import { collectionPath } from '../../kubernetes/path.ts'
import { type Ahead, aheadByDate, clockFinding } from '../../lib/clock-findings.ts'
import { KasError } from '../../lib/errors.ts'
import type { Finding } from '../../lib/findings.ts'
import { ApiClient } from '../cluster/api-client.ts'
import { loadCluster } from '../cluster/load-cluster.ts'
import { nextStepToApiServer } from '../cluster/next-step.ts'
import type { Config } from '../config/config.ts'
import { absentNamespaceStep } from '../election/lease-client.ts'
import { askKubernetesVersion } from '../modules/registrar/module.ts'
import { forbidden, nameOfRight, questionTimeoutMs, type Right, reviewAccess } from './access-review.ts'
import { checkImpersonation } from './impersonation.ts'

/** Timeout of connecting, in ms. It is shorter than a question's, so that no pending dial delays the end. */
const connectTimeoutMs = 8000
/**
 * Checks the API server, and the rights that agentk itself needs there. The rights that calls need depend on the calls.
 *
 * @param agentId - id that kas has sent
 */
export async function checkCluster(config: Config, agentId: bigint | undefined): Promise<Finding[]> {
  let api: ApiClient
  let ahead: Ahead | undefined
  const onDate = (date: string, waitedMs: number) => {
    const receivedAt = Date.now()
    ahead = aheadByDate(date, { sentAt: receivedAt - waitedMs, receivedAt })
  }
  try {
    api = new ApiClient(await loadCluster(config.cluster, config.env), { dialPatienceMs: 0, connectTimeoutMs, onDate })
  } catch (error) {
    return [failed('cluster', (error as Error).message), ...skipped]
  }
  try {
    const { finding, isAnswering } = await checkVersion(api)
    if (!isAnswering) return [finding, ...skipped]
    const rights = await checkLease(api, config.pod.namespace, agentId)
    const namespace = await checkNamespace(api, config.pod.namespace)
    const impersonation = await checkImpersonation(api, config.mayImpersonate)
    return [finding, ...rights, ...namespace, ...impersonation, clockFinding('API server', "the API server's", ahead)]
  } finally {
    await api.close()
  }
}

/** @returns `isAnswering`: more can be asked. An account may lack the right to see the version, and have all others. */
async function checkVersion(api: ApiClient): Promise<{ readonly finding: Finding; readonly isAnswering: boolean }> {
  const { server } = api.access
  try {
    const { gitVersion, major, minor } = await askKubernetesVersion(api, AbortSignal.timeout(questionTimeoutMs))
    const text = `${server.host}: Kubernetes ${gitVersion || `${major}.${minor}`}`
    return { finding: { check: 'cluster', state: 'ok', text }, isAnswering: true }
  } catch (error) {
    const text = `${server.host}: ${(error as Error).message}`
    const advice = nextStepToApiServer(error, server) ?? 'check that the API server serves /version'
    const { spec } = KasError.from(error)
    const isAnswering = spec.code === 'UNREACHABLE' && spec.httpStatus === forbidden
    return { finding: failed('cluster', text, advice), isAnswering }
  }
}

const skipped: readonly Finding[] = ['rights', 'clocks'].map((check) => ({
  check,
  state: 'skipped',
  text: 'the API server cannot be asked',
}))

async function checkLease(api: ApiClient, namespace: string, agentId: bigint | undefined): Promise<Finding[]> {
  const leases = { group: 'coordination.k8s.io', resource: 'leases', namespace }
  return await Promise.all(
    ['get', 'create', 'update'].map((verb) => {
      const advice = 'without it no pod leads: allow it in the Role of the namespace'
      if (verb === 'create') return checkRight(api, { ...leases, verb }, 'failed', advice) // no Role limits it by name
      if (agentId !== undefined) {
        return checkRight(api, { ...leases, verb, name: `agent-${agentId}-lock` }, 'failed', advice)
      }
      const unknown = `${advice}; a Role that names the Lease of the agent is not seen here, as kas has not sent the id`
      return checkRight(api, { ...leases, verb }, 'note', unknown)
    }),
  )
}

/**
 * Creates a Lease as a dry run. An access review does not show that a Namespace is absent.
 *
 * @returns no finding if the Namespace exists, or if a right is missing, which has its own finding
 */
async function checkNamespace(api: ApiClient, namespace: string): Promise<Finding[]> {
  const path = `${collectionPath(builtIn.leases, namespace)}?dryRun=All`
  const metadata = { generateName: 'agentk-doctor-' }
  const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata }
  const answer = await api.json('POST', path, lease, AbortSignal.timeout(questionTimeoutMs)).catch(() => undefined)
  if (answer?.status !== 404) return []
  return [failed('rights', `the cluster has no Namespace ${namespace}`, absentNamespaceStep(namespace))]
}

/** @param missing - state of the finding if the right is missing */
async function checkRight(
  api: ApiClient,
  attributes: Right,
  missing: 'failed' | 'note',
  advice: string,
): Promise<Finding> {
  const isAllowed = await reviewAccess(api, attributes)
  if (typeof isAllowed !== 'boolean') return isAllowed
  const one = { check: 'rights', subject: nameOfRight(attributes) }
  if (isAllowed) return { ...one, state: 'ok', text: 'allowed' }
  return { ...one, state: missing, text: 'not allowed', advice }
}

function failed(check: string, text: string, advice?: string): Finding {
  return { check, state: 'failed', text, advice }
}
