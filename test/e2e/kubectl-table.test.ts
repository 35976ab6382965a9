import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import { EntryReplica } from '../support/entry-replica.ts'
import { httpsGet } from '../support/https-get.ts'
import { bindReader, identityOperations } from '../support/kubectl-identities.ts'
import { deleteOperation, objectOperations } from '../support/kubectl-operations.ts'
import { proxyOperations } from '../support/kubectl-proxy.ts'
import {
  type Identity,
  identities,
  type KubectlOperation,
  type KubectlSide,
  skipOf,
  titleOf,
} from '../support/kubectl-side.ts'
import { assets, createSide, skip, throughStack } from '../support/kubectl-stack.ts'
import { logOperations, streamOperations } from '../support/kubectl-streams.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { bearerOf, impersonated } from '../support/stack-directory.ts'
import { callsAreLogged, type KubectlWays } from './access-log.ts'

/**
 * kubectl does the same directly at an API server, through the replica that holds the agent, and through one that does
 * not. The results are the same, and the access log names each call. Streams and upgrades work for each scheme that
 * agentk dials.
 */

/** independent rows that run at once: each mostly waits */
const rowsAtOnce = 3

/** each scheme that agentk dials but wss, which the table of all operations covers */
const schemes = ['grpc', 'grpcs', 'ws'] as const
const namesPerScheme = [
  'apply',
  'rollout status',
  'get --watch',
  'logs --follow',
  'exec, 1 MB through cat',
  'port-forward',
]
const operationsPerScheme = [
  ...[...objectOperations, ...logOperations, ...streamOperations].filter(({ name }) => namesPerScheme.includes(name)),
  deleteOperation,
]

t.test('kubectl', { skip, timeout: 240_000 }, async (t) => {
  const processes = await Processes.start(t)
  const auditLogFile = join(processes.folder, 'audit.log')
  const controlPlane = new ControlPlane({ assets, parts: 'all', auditLogFile })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const direct = await directKubeconfigs(controlPlane, processes)
  const ways = { processes, controlPlane, auditLogFile, ...(await startWays(t, processes, direct.agent)) }
  await t.test('kinds of calls, at each replica, as the access log says it', (t) => callsAreLogged(t, ways))
  // wire: upgrade.kubectl
  await t.test('direct and through each way of kas', (t) => directAndThrough(t, direct, ways))
  await t.test('through a tunnel', async (t) => {
    t.jobs = schemes.length // each has its own programs and namespace, and mostly waits
    await Promise.all(
      schemes.map((scheme) => t.test(`over ${scheme}`, { buffered: true }, (t) => playOver(t, scheme, controlPlane))),
    )
  })
})

async function directAndThrough(t: Test, direct: Record<Identity, string>, ways: KubectlWays): Promise<void> {
  const { processes, controlPlane, holder, entry } = ways
  const components = { processes, controlPlane }
  const sides = await Promise.all([
    createSide('direct', direct, components),
    throughStack('through-holder', holder, components),
    createSide('through-entry', entry.kubeconfigs, components),
  ])
  const account = 'system:serviceaccount:default:agentk'
  const { ci_job, user, impersonate } = impersonated
  const users = { agent: account, ci_job: ci_job.username, user: user.username, impersonate: impersonate.username }
  const readers = [users.ci_job, users.user, users.impersonate]
  await Promise.all(sides.map(({ kubectl }) => bindReader(kubectl, readers)))
  const rows: string[][] = []
  const play = async (operation: KubectlOperation) => {
    const row = [operation.name, operation.form ?? '', ...sides.map(() => 'skipped')]
    rows.push(row)
    const skip = skipOf(operation)
    await t.test(titleOf(operation), { skip, buffered: true }, async (t) => {
      const results = await Promise.all(sides.map((side) => attempt(operation, side)))
      row.splice(2, sides.length, ...results.map(({ error }) => (error ? 'FAILED' : 'ok')))
      for (const [index, { error, seen }] of results.entries()) {
        const name = sides[index]?.name ?? ''
        t.error(error, name)
        t.equal(seen, results[0]?.seen, `${name} sees what is seen directly`)
      }
    })
  }
  for (const operation of objectOperations) await play(operation)
  t.jobs = rowsAtOnce
  await Promise.all([...logOperations, ...streamOperations, ...proxyOperations, ...identityOperations(users)].map(play))
  await play(deleteOperation)
  t.same(await entry.holders(), ['kas-0'], 'the agent has been where it was all the while')
  t.comment(table([['operation', 'carried by', ...sides.map(({ name }) => name)], ...rows]))
}

async function playOver(t: Test, scheme: (typeof schemes)[number], controlPlane: ControlPlane): Promise<void> {
  const processes = await Processes.start(t)
  const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig, scheme })
  await stack.startAgentk()
  await stack.connected()
  const side = await throughStack(`over-${scheme}`, stack, { processes, controlPlane })
  for (const operation of operationsPerScheme) await t.resolves(operation.run(side), titleOf(operation))
}

/** Starts one replica that holds the agent, and one that does not. */
async function startWays(t: Test, processes: Processes, agentKubeconfig: string) {
  const configuration = { observability: { access_log: { rules: [{ level: 'metadata' }] } } }
  const holder = await Stack.start(processes, { agentKubeconfig, configuration })
  await holder.startAgentk()
  const entry = await EntryReplica.start(processes, holder)
  await holder.connected()
  for (const url of [holder.kubernetesUrl, entry.kubernetesUrl]) {
    const ca = await readFile(holder.caFile, 'utf8')
    const version = await httpsGet(`${url}/version`, { ca, token: bearerOf('agent') })
    t.equal(version.status, 200)
    t.match(version.headers.via, /gitlab-agent\/.*gitlab-kas\//, 'it goes through kas and tunnel')
  }
  return { holder, entry }
}

async function attempt(operation: KubectlOperation, side: KubectlSide): Promise<{ seen?: string; error?: unknown }> {
  try {
    return { seen: (await operation.run(side)).replaceAll(side.kubectl.namespace, 'NAMESPACE') }
  } catch (error) {
    return { error }
  }
}

/**
 * Kubeconfigs for the API server itself: the agent's own service account, and for each other identity an administrator
 * who impersonates it.
 */
async function directKubeconfigs(controlPlane: ControlPlane, processes: Processes): Promise<Record<Identity, string>> {
  const account = await createServiceAccount(controlPlane.admin, { namespace: 'default', name: 'agentk' })
  const tokenFile = join(processes.folder, 'service-account-token')
  await writeFile(tokenFile, controlPlane.signToken({ account, lifeMs: 3_600_000 }), { mode: 0o600 })
  const { server, caFile } = controlPlane
  const admin = { certificateFile: controlPlane.adminCertificateFile, keyFile: controlPlane.adminKeyFile }
  const write = async (identity: Identity) => {
    const user = identity === 'agent' ? { tokenFile } : { ...admin, as: impersonated[identity] }
    const path = join(processes.folder, `direct-${identity}.kubeconfig`)
    await writeFile(path, kubeconfigText({ server, caFile, user }), { mode: 0o600 })
    return [identity, path]
  }
  return Object.fromEntries(await Promise.all(identities.map(write)))
}

/** Formats columns of one width, with a rule below the head. */
function table(rows: readonly string[][]): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  lines.splice(1, 0, widths.map((width) => '-'.repeat(width)).join('  '))
  return lines.join('\n')
}
