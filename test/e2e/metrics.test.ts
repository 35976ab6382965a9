import t from 'tap'
import { errorCodes } from '../../src/lib/errors.ts'
import { freshMetrics } from '../support/fresh-programs.ts'
import { Processes } from '../support/processes.ts'

/**
 * A series that begins with its first failure hides that failure: `rate` needs a value from before. So each counter of
 * failures by a label with known values begins at 0 when kas starts.
 */

t.setTimeout(90_000)

const fresh = await freshMetrics(await Processes.start(t))

const values = (text: string, name: string) =>
  Object.fromEntries(
    text
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .map((line) => {
        const end = line.lastIndexOf(' ')
        return [line.slice(name.length, end), Number(line.slice(end + 1))]
      }),
  )

const zeros = (label: string, names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [`{${label}="${name}"}`, 0]))

const kinds = zeros('kind', ['delta', 'beat', 'farewell', 'unknown'])

t.test('failures of a kas that nobody has called', async (t) => {
  const of = (name: string) => values(fresh.kas, name)
  t.strictSame(of('kas_kubernetes_errors_total'), zeros('code', errorCodes))
  t.strictSame(of('kas_agent_configuration_limits_total'), zeros('limit', ['turn', 'time', 'memory']))
  t.strictSame(of('kas_row_pulls_total'), zeros('result', ['ok', 'failed']))
  t.strictSame(of('kas_directory_file_reads_total')['{result="failed"}'], 0)
  t.strictSame(Object.keys(of('kas_gossip_published_total')).sort(), Object.keys(kinds).sort())
  t.strictSame(Object.keys(of('kas_gossip_received_total')).sort(), Object.keys(kinds).sort())
  for (const name of [
    'kas_agents_refused_total',
    'kas_api_refused_total',
    'kas_gitlab_unserved_calls_total',
    'kas_gossip_refused_total',
    'kas_row_held_back_total',
    'kas_access_log_lost_lines_total',
    'kas_agent_rate_limited_total',
    'k8s_api_proxy_routing_timeout_total',
    'agent_server_rate_exceeded_total',
    'kas_replica_strangers_total',
  ]) {
    const counted = Object.values(of(name))
    t.ok(counted.length > 0, name)
    t.ok(
      counted.every((count) => count === 0),
      name,
    )
  }
})

t.test('failures of a kas that has asked GitLab nothing', async (t) => {
  const unchecked = values(fresh.kasOfGitlab, 'kas_gitlab_credentials_unchecked_total')
  t.strictSame(unchecked, zeros('kind', ['agents', 'users']))
})

t.test('failures of an agentk that has reached nobody', async (t) => {
  const of = (name: string) => values(fresh.agentk, name)
  const results = ['synced', 'failing', 'refused', 'approval', 'paused']
  t.strictSame(of('agentk_gitops_rounds_total'), zeros('result', results))
  t.strictSame(of('agentk_flux_webhooks_failed_total'), { '': 0 })
  t.strictSame(of('agentk_views_thread_ends_total'), { '': 0 })
})

t.test('every counter of kas and agentk with a label has its series, but those of calls that were made', async (t) => {
  const made = /^(grpc_server_|nodejs_|process_|agentk_gitops_api_calls_total$)/
  for (const text of [fresh.kas, fresh.kasOfGitlab, fresh.agentk]) {
    for (const [, name = ''] of text.matchAll(/^# TYPE (\S+) counter$/gm)) {
      if (!made.test(name)) t.ok(Object.keys(values(text, name)).length > 0, name)
    }
  }
})
