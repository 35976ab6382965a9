import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { ApiClient } from '../../src/agentk/cluster/api-client.ts'
import { impersonationHeaders } from '../../src/agentk/cluster/impersonation-headers.ts'
import { loadCluster } from '../../src/agentk/cluster/load-cluster.ts'
import { LeaseClient } from '../../src/agentk/election/lease-client.ts'
import type { AgentId } from '../../src/call/call.ts'
import { jobImpersonation, userImpersonation } from '../../src/kas/servers/kubernetes/authorization/impersonation.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { KubernetesDiscovery, kubernetesDefaults } from '../../src/membership/discovery/kubernetes/kubernetes-source.ts'
import type { Impersonation } from '../../src/proto/http/http-message.ts'
import { AccountRights, discoveryRights, impersonationRights, leaseRights } from '../support/account-rights.ts'
import { capturedLog } from '../support/captured-log.ts'
import { eventually } from '../support/eventually.ts'
import { Kubectl } from '../support/kubectl.ts'
import { assets, skip } from '../support/kubectl-stack.ts'
import { manifestsFolder, readManifests } from '../support/manifests.ts'
import { Processes } from '../support/processes.ts'

/** The shipped manifests, applied to a real API server: they are valid, and their rights are enough and no more. */

const accounts = { kas: 'kas:kas', agentk: 'agentk:agentk', gitlab: 'team-a:gitlab', stranger: 'default:stranger' }
type Account = keyof typeof accounts

/** time for controllers on a busy machine */
const patience = { timeoutMs: 60_000 }

const agentId = 42n as AgentId
const job = jobImpersonation(agentId, {
  accessAs: { as: 'ci_job' },
  configProjectId: 1n,
  user: { id: 5n, username: 'ada' },
  job: { id: 900n },
  pipeline: { id: 90n },
  project: { id: 1n, groups: [{ id: 7n }] },
  environment: { slug: 'prod', tier: 'production' },
})
const user = userImpersonation(
  agentId,
  {
    accessAs: { as: 'user', projects: [{ id: 1n, roles: ['maintainer'] }], groups: [{ id: 7n, roles: ['developer'] }] },
    configProjectId: 1n,
    user: { id: 5n, username: 'ada' },
  },
  'personal_access_token',
)

t.test('the manifests at a real API server', { skip, timeout: 150_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: controlPlane.kubeconfig })

  /** Writes a kubeconfig with the credentials of a pod with this account. @returns its path */
  const kubeconfigOf = async (account: Account): Promise<string> => {
    const [namespace = '', name = ''] = accounts[account].split(':')
    const { metadata } = await controlPlane.admin.get(`/api/v1/namespaces/${namespace}/serviceaccounts/${name}`)
    const token = controlPlane.signToken({ account: { namespace, name, uid: metadata.uid }, lifeMs: 600_000 })
    const { server, caFile } = controlPlane
    const path = join(processes.folder, `${account}.kubeconfig`)
    await writeFile(path, kubeconfigText({ server, caFile, namespace, user: { token } }), { mode: 0o600 })
    return path
  }

  const rights = new AccountRights(kubectl)
  const rightsOf = (account: Account, namespace: string) => rights.of(accounts[account], namespace)

  await t.test('they are taken without a word of warning', async (t) => {
    await kubectl.ok(['create', 'namespace', 'team-a'])
    const folders = ['kas', 'agentk', 'agentk-access']
    const files = folders.flatMap((folder) => ['-f', join(manifestsFolder, folder)])
    const { code, stdout, stderr } = await kubectl.run(['apply', '--server-side', ...files])
    t.strictSame({ code, stderr }, { code: 0, stderr: '' })
    const objects = stdout.toString().match(/^\S+(?= serverside-applied$)/gm)
    t.equal(objects?.length, folders.flatMap(readManifests).length, 'each object of the files')
  })

  await t.test("so are those beside GitLab's chart", async (t) => {
    await kubectl.ok(['create', 'namespace', 'gitlab'])
    const files = ['cluster', 'network-policy'].map((name) => join(manifestsFolder, `../gitlab-helm/${name}.yaml`))
    const { code, stderr } = await kubectl.run(['apply', '--server-side', ...files.flatMap((file) => ['-f', file])])
    t.strictSame({ code, stderr }, { code: 0, stderr: '' })
  })

  await t.test('what each service account may do', async (t) => {
    const [kas, elsewhere, agentk, everywhere, teamA, gitlab] = await Promise.all([
      rightsOf('kas', 'kas'),
      rightsOf('kas', 'default'),
      rightsOf('agentk', 'agentk'),
      rightsOf('agentk', 'default'),
      rightsOf('agentk', 'team-a'),
      rightsOf('gitlab', 'team-a'),
    ])
    t.strictSame(kas, discoveryRights('kas-private').sort())
    t.strictSame(elsewhere, [], 'kas in another namespace')
    t.strictSame(agentk, [...leaseRights(42), ...impersonationRights()].sort(), 'agentk at home')
    t.strictSame(everywhere, impersonationRights().sort(), 'agentk in any namespace, cluster-wide')
    t.strictSame(teamA, [...impersonationRights(), 'serviceaccounts [] [gitlab] [impersonate]'].sort())
    for (const rights of [kas, agentk, teamA, gitlab]) {
      t.ok(rights.length > 0)
      t.notMatch(rights.join('\n'), /\*/, 'no wildcard')
    }
  })

  await t.test('agentk can act as each of those whom kas names', async (t) => {
    const { client, close } = await agentkClient(await kubeconfigOf('agentk'))
    t.teardown(close)
    for (const who of [job, user]) {
      const { username, groups, uid, extra } = who as Impersonation
      const seen = await whoAmI(client, who as Impersonation)
      t.equal(seen.status, 201, username)
      t.match(seen.user, { username, ...(uid && { uid }) }, 'user name, uid')
      t.strictSame(seen.user.groups.toSorted(), [...groups, 'system:authenticated'].sort(), 'groups')
      t.strictSame(seen.user.extra, Object.fromEntries(extra.map(({ key, val }) => [key, val])), 'extra keys')
    }
    const nobody = { username: 'nobody', groups: [], uid: '', extra: [] }
    const refused: Impersonation[] = [
      { ...nobody, username: 'system:serviceaccount:default:default' },
      { ...nobody, uid: 'uid-1' },
      { ...nobody, extra: [{ key: 'example.com/reason', val: ['one'] }] },
    ]
    for (const who of refused) t.equal((await whoAmI(client, who)).status, 403, JSON.stringify(who))
  })

  await t.test('agentk of one namespace can act as its service account alone', async (t) => {
    await kubectl.ok(['delete', '-f', join(manifestsFolder, 'agentk-access/cluster-wide.yaml')])
    const { client, close } = await agentkClient(await kubeconfigOf('agentk'))
    t.teardown(close)
    const as = (username: string) => whoAmI(client, { username, groups: [], uid: '', extra: [] })
    await eventually(async () => {
      const { status } = await as('gitlab:user:ada')
      if (status !== 403) throw new Error(`a user that the Role does not name: ${status}`)
    })
    t.equal((await as('system:serviceaccount:team-a:default')).status, 403, 'another account of the namespace')
    t.match(await as('system:serviceaccount:team-a:gitlab'), {
      status: 201,
      user: { username: 'system:serviceaccount:team-a:gitlab' },
    })
    t.strictSame(await rightsOf('agentk', 'default'), [], 'nothing in another namespace')
    t.strictSame(await rightsOf('agentk', 'team-a'), ['serviceaccounts [] [gitlab] [impersonate]'])
  })

  await t.test('agentk can hold the lease of its agent', async (t) => {
    const { client, close } = await agentkClient(await kubeconfigOf('agentk'))
    t.teardown(close)
    const leases = new LeaseClient(client, { namespace: 'agentk' })
    const signal = AbortSignal.timeout(10_000)
    const time = '2026-01-01T00:00:00.000000Z'
    const next = { holder: 'a', durationSeconds: 15, acquireTime: time, renewTime: time, transitions: 0 }
    t.equal(await leases.read('agent-42-lock', signal), undefined)
    const created = await leases.write('agent-42-lock', next, undefined, signal)
    t.match(await leases.write('agent-42-lock', { ...next, holder: 'b' }, created, signal), { holder: 'b' })
    await t.rejects(leases.read('agent-43-lock', signal), { code: 'UNREACHABLE' })
  })

  await t.test('pods are admitted, and replicas find one another with the rights that they have', async (t) => {
    const kubeconfig = await kubeconfigOf('kas')
    const discover = async () => {
      const { log, lines } = capturedLog()
      const options = { ...kubernetesDefaults, services: ['kas-private'], namespace: 'kas', otherPort: 1, kubeconfig }
      const discovery = new KubernetesDiscovery({ log, clock: systemClock, random: Math.random }, options)
      t.teardown(() => discovery.stop())
      await discovery.start()
      const addresses = await eventually(() => {
        const { addresses } = discovery.current()
        if (addresses.length !== 3) throw new Error(JSON.stringify(discovery.current()))
        return addresses
      }, patience)
      return { addresses, lines }
    }
    const bySlices = await discover()
    t.strictSame(bySlices.lines, [])
    for (const address of bySlices.addresses) t.match(address, /:8156$/, 'the port named gossip')
    const withoutSlices = JSON.stringify([{ op: 'remove', path: '/rules/0' }])
    await kubectl.with({ namespace: 'kas' }).ok(['patch', 'role', 'kas-discovery', '--type=json', '-p', withoutSlices])
    const byEndpoints = await discover()
    t.match(byEndpoints.lines, [{ msg: /Discovery uses Endpoints/ }])
    t.strictSame(byEndpoints.addresses, bySlices.addresses)
    await eventually(async () => {
      const { items } = await controlPlane.admin.get('/api/v1/namespaces/agentk/pods')
      if (items.length !== 2) throw new Error(`${items.length} pods of agentk`)
    }, patience)
  })
})

async function agentkClient(kubeconfig: string): Promise<{ client: ApiClient; close: () => Promise<void> }> {
  const client = new ApiClient(await loadCluster({ kubeconfig }, {}))
  return { client, close: () => client.close() }
}

interface Seen {
  readonly status: number
  readonly user: { username: string; uid?: string; groups: string[]; extra: Record<string, string[]> }
}

/** Sends a request of agentk with this impersonation. @returns the API server's view of its user */
async function whoAmI(client: ApiClient, impersonation: Impersonation): Promise<Seen> {
  const { username, groups, uid, extra } = impersonation
  const copied = { username, uid, groups: [...groups], extra: extra.map(({ key, val }) => ({ key, val: [...val] })) }
  const { promise, resolve, reject } = Promise.withResolvers<Seen>()
  const chunks: Buffer[] = []
  let status = 0
  client.send(
    {
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      headers: ['Content-Type', 'application/json', ...impersonationHeaders(undefined, copied, [])],
      body: Buffer.from('{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'),
    },
    {
      onHead: (statusCode) => {
        status = statusCode
      },
      onData: (chunk) => void chunks.push(chunk),
      onEnd: () => {
        const body = JSON.parse(Buffer.concat(chunks).toString())
        resolve({ status, user: { extra: {}, groups: [], ...body.status?.userInfo } })
      },
      onError: reject,
    },
  )
  return promise
}
