import { builtIn } from '../../kubernetes/kind.ts'
import { collectionPath } from '../../kubernetes/path.ts'
import { type Ahead, aheadByDate, clockFinding } from '../../lib/clock-findings.ts'
import { KasError } from '../../lib/errors.ts'
import type { Finding } from '../../lib/findings.ts'
import { ApiClient } from '../cluster/api-client.ts'
import { loadCluster } from '../cluster/load-cluster.ts'
import { nextStepToApiServer } from '../cluster/next-step.ts'
import type { Config } from '../config/config.ts'
import { askKubernetesVersion } from '../modules/registrar/module.ts'

/** of each question. ms */
const timeoutMs = 10_000
/** What does not connect is over before, and keeps no doctor from its end. ms */
const connectTimeoutMs = 8000
const forbidden = 403
const reviewPath = collectionPath(builtIn.accessReviews)

interface Right {
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly subresource?: string
  readonly namespace?: string
  /** of the one object; without it the question is for all of them */
  readonly name?: string
}

/**
 * The API server, and what agentk itself has to be allowed there; calls are by the rights that calls need.
 *
 * @param agentId - as kas has sent it
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
    const rights = await checkRights(api, config.pod.namespace, agentId)
    return [finding, ...rights, clockFinding('API server', "the API server's", ahead)]
  } finally {
    await api.close()
  }
}

/** @returns whether more can be asked of it: an account that may not see the version may have the rights that it needs */
async function checkVersion(api: ApiClient): Promise<{ readonly finding: Finding; readonly isAnswering: boolean }> {
  const { server } = api.access
  try {
    const { gitVersion, major, minor } = await askKubernetesVersion(api, AbortSignal.timeout(timeoutMs))
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

async function checkRights(api: ApiClient, namespace: string, agentId: bigint | undefined): Promise<Finding[]> {
  const leases = { group: 'coordination.k8s.io', resource: 'leases', namespace }
  const needed = await Promise.all(
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
  const advice =
    'calls as agent work; ci_job, impersonate and user of access_as need it; a role that names some is not seen here'
  const impersonation = await Promise.all(
    impersonated.map((one) => checkRight(api, { verb: 'impersonate', ...one }, 'note', advice)),
  )
  return [...needed, ...impersonation]
}

/** One of the extra keys by which GitLab says who calls; a role for it has to name them all. */
const extraKey = 'agent.gitlab.com/id'

const impersonated: readonly Omit<Right, 'verb'>[] = [
  { group: '', resource: 'users' },
  { group: '', resource: 'groups' },
  { group: 'authentication.k8s.io', resource: 'userextras', subresource: extraKey },
]

const reviewAdvice = 'let the account create selfsubjectaccessreviews, as ClusterRole system:basic-user does for all'

/** @param missing - what it is if the right is not there */
async function checkRight(
  api: ApiClient,
  attributes: Right,
  missing: 'failed' | 'note',
  advice: string,
): Promise<Finding> {
  const right = nameOf(attributes)
  const review = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: attributes },
  }
  try {
    const { status, body } = await api.json('POST', reviewPath, review, AbortSignal.timeout(timeoutMs))
    const { allowed } = (body as { status?: { allowed?: unknown } } | undefined)?.status ?? {}
    if (typeof allowed !== 'boolean') {
      const text = `the review was answered with ${status}`
      const next = status === forbidden ? { advice: reviewAdvice } : {}
      return { check: 'rights', state: 'skipped', subject: right, text, ...next }
    }
    if (allowed) return { check: 'rights', state: 'ok', subject: right, text: 'allowed' }
    return { check: 'rights', state: missing, subject: right, text: 'not allowed', advice }
  } catch (error) {
    return { check: 'rights', state: 'skipped', subject: right, text: (error as Error).message }
  }
}

function nameOf({ verb, group, resource, subresource, namespace, name }: Right): string {
  const full = `${resource}${group === '' ? '' : `.${group}`}${subresource === undefined ? '' : `/${subresource}`}`
  return `${verb} ${full}${name === undefined ? '' : ` ${name}`}${namespace === undefined ? '' : ` in ${namespace}`}`
}

function failed(check: string, text: string, advice?: string): Finding {
  return { check, state: 'failed', text, advice }
}
