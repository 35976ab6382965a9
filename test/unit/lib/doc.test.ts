import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createAccessLogMetrics } from '../../../src/kas/access-log/access-log.ts'
import { createConfigurationMetrics } from '../../../src/kas/agent-config/configuration-metrics.ts'
import { createDirectoryMetrics } from '../../../src/kas/directory/file/directory-metrics.ts'
import { createGitlabMetrics } from '../../../src/kas/directory/gitlab/gitlab-metrics.ts'
import { createMemoryMetrics } from '../../../src/kas/memory/replica-memory.ts'
import { createFluxMetrics } from '../../../src/kas/modules/flux/flux-metrics.ts'
import { createViewsMetrics } from '../../../src/kas/modules/views/views-metrics.ts'
import { createLinkMetrics } from '../../../src/kas/peers/links.ts'
import { createGitalyMetrics } from '../../../src/kas/repositories/gitaly/gitaly-metrics.ts'
import { createRouterMetrics } from '../../../src/kas/router/router-metrics.ts'
import { createRateMetrics } from '../../../src/kas/servers/agents/limits/agent-rates.ts'
import { createRefusalMetrics } from '../../../src/kas/servers/agents/refusals.ts'
import { createKubernetesMetrics, createSessionMetrics } from '../../../src/kas/servers/kubernetes/http/metrics.ts'
import { createRailsRefusalMetrics, createUnservedMetrics } from '../../../src/kas/servers/rails/rails-metrics.ts'
import { createStrangersMetric } from '../../../src/kas/servers/replicas/replicas-server.ts'
import { errorCodes, limitNames } from '../../../src/lib/errors.ts'
import {
  createAgentMetrics,
  createBuildMetrics,
  createGrpcServerMetrics,
  createRegistry,
} from '../../../src/lib/metrics.ts'
import { createMembershipMetrics } from '../../../src/membership/metrics.ts'

/** The lists in doc/ are complete and name nothing that no longer exists. */

const doc = (name: string) => readFile(join(import.meta.dirname, '../../../doc', name), 'utf8')

t.test('doc/reference/errors.md has a row for each error', async (t) => {
  const rows = [...(await doc('reference/errors.md')).matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code]) => code)
  t.strictSame(rows.toSorted(), errorCodes.toSorted())
})

t.test('each limit of TOO_MANY_STREAMS has a name of its own, which doc/reference/errors.md says', async (t) => {
  const source = join(import.meta.dirname, '../../../src')
  const files = globSync('**/*.ts', { cwd: source, exclude: ['lib/errors.ts', 'proto/gen/**'] })
  const texts = await Promise.all(files.map((file) => readFile(join(source, file), 'utf8')))
  const uses = (name: string) => texts.reduce((sum, text) => sum + text.split(`'${name}'`).length - 1, 0)
  const elsewhere = limitNames.filter((name) => uses(name) !== 1)
  t.strictSame(elsewhere, [], 'one place throws it')
  const rows = [...(await doc('reference/errors.md')).matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, name]) => name)
  t.strictSame(rows, limitNames)
})

t.test('doc/reference/metrics.md has a row for each metric', async (t) => {
  const register = createRegistry()
  createBuildMetrics(register, { version: '1', commit: 'x' })
  createAgentMetrics(register, () => 0)
  createRouterMetrics(register)
  createGrpcServerMetrics(register)
  createDirectoryMetrics(register)
  createAccessLogMetrics(register)
  createConfigurationMetrics(register)
  createFluxMetrics(register)
  createGitlabMetrics(register, { refillPerSecond: 50 })
  createGitalyMetrics(register)
  createKubernetesMetrics(register, () => 0)
  createSessionMetrics(register, { sessions: () => 0, checkMs: () => 0 })
  createViewsMetrics(register, () => 0)
  createMemoryMetrics(register, {})
  createRefusalMetrics(register)
  createRateMetrics(register, [])
  createRailsRefusalMetrics(register)
  createUnservedMetrics(register)
  createStrangersMetric(register)
  createLinkMetrics(register, { reaches: () => [] })
  const none = () => 0
  createMembershipMetrics(register, {
    members: none,
    rows: none,
    connections: none,
    staleSources: none,
    unansweredSources: none,
  })
  const names = register.getMetricsAsArray().map(({ name }) => name)
  const own = names.filter((name) => !/^(process|nodejs)_/.test(name))
  const named = [...(await doc('reference/metrics.md')).matchAll(/^\| (`[a-z0-9_`, ]+`) \|/gm)].flatMap(([, cell]) =>
    [...(cell ?? '').matchAll(/`([a-z0-9_]+)`/g)].map(([, name]) => name),
  )
  t.strictSame(named.toSorted(), own.toSorted())
})
