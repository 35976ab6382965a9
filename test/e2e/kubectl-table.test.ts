import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import { httpsGet } from '../support/https-get.ts'
import { bindReader, identityOperations } from '../support/kubectl-identities.ts'
import { deleteOperation, objectOperations } from '../support/kubectl-operations.ts'
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

/** What kubectl does with an API server directly, it does through kas and tunnel, and sees the same. */

t.test('kubectl, direct and through kas', { skip, timeout: 240_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const direct = await directKubeconfigs(controlPlane, processes)
  const stack = await Stack.start(processes, { agentKubeconfig: direct.agent })
  await stack.startAgentk()
  await stack.connected()
  const sides = [
    await createSide('direct', direct, { processes, controlPlane }),
    await throughStack('through-kas', stack, { processes, controlPlane }),
  ] as const
  const version = await httpsGet(`${stack.kubernetesUrl}/version`, {
    ca: await readFile(stack.caFile, 'utf8'),
    token: bearerOf('agent'),
  })
  t.match(version.headers.via, /gitlab-agent\/.*gitlab-kas\//, 'one side goes through kas and tunnel')
  const account = 'system:serviceaccount:default:agentk'
  const { ci_job, user, impersonate } = impersonated
  const users = { agent: account, ci_job: ci_job.username, user: user.username, impersonate: impersonate.username }
  for (const { kubectl } of sides) {
    await bindReader(kubectl, [users.ci_job, users.user, users.impersonate])
  }
  const operations = [
    ...objectOperations,
    ...logOperations,
    ...streamOperations,
    ...identityOperations(users),
    deleteOperation,
  ]
  const rows: string[][] = [['operation', 'carried by', ...sides.map(({ name }) => name)]]
  for (const operation of operations) {
    const skip = skipOf(operation)
    if (skip) rows.push([operation.name, operation.form ?? '', ...sides.map(() => 'skipped')])
    await t.test(titleOf(operation), { skip }, async (t) => {
      const results = await Promise.all(sides.map((side) => attempt(operation, side)))
      rows.push([operation.name, operation.form ?? '', ...results.map(({ error }) => (error ? 'FAILED' : 'ok'))])
      for (const [index, { error }] of results.entries()) t.error(error, sides[index]?.name ?? '')
      t.equal(results[1]?.seen, results[0]?.seen, 'both see the same')
    })
  }
  t.comment(table(rows))
})

async function attempt(operation: KubectlOperation, side: KubectlSide): Promise<{ seen?: string; error?: unknown }> {
  try {
    return { seen: (await operation.run(side)).replaceAll(side.kubectl.namespace, 'NAMESPACE') }
  } catch (error) {
    return { error }
  }
}

/** The agent's own service account, and for each other identity an administrator who impersonates it. */
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

/** Columns of one width, a rule below the head. */
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
