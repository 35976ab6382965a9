import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { rules, rulesFile } from '../support/monitoring/files.ts'
import { promtool } from '../support/monitoring/promtool.ts'

/**
 * Prometheus' promtool decides which rules fire: each rule on its fault, even on a single burst, and none without a
 * fault.
 */

/** values of series in promtool's notation, one value a minute */
type Series = Readonly<Record<string, string>>

const minutes = 100
const always = (value: number) => `${value}+0x${minutes}`
/** 0 for 20 minutes, then `count` at once, then no further rise */
const burst = (count: number) => `0+0x20 ${count}+0x${minutes}`
/** 0 for 20 minutes, then a rise of `aMinute` a minute */
const steady = (aMinute: number) => `0+0x20 0+${aMinute}x${minutes}`
/** a series that begins with its failures */
const begins = (count: number) => `_x20 ${count}+0x${minutes}`
/** `value`, and `other` for `length` minutes from the 30th on */
const interrupted = (value: number, other: number, length: number) =>
  `${value}+0x29 ${other}+0x${length - 1} ${value}+0x${minutes}`

const of =
  (name: string, labels = '') =>
  (replica: string) =>
    `${name}{job="kas",namespace="kas",instance="${replica}"${labels && `,${labels}`}}`
const agentk = (name: string, labels = '') =>
  `${name}{job="agentk",namespace="agentk",instance="pod-0"${labels && `,${labels}`}}`
const both = (name: string, labels: string, values: string): Series =>
  Object.fromEntries(['a', 'b'].map((replica) => [of(name, labels)(replica), values]))
const code = (name: string) => of('kas_kubernetes_errors_total', `code="${name}"`)('a')
const refused = (reason: string) => of('kas_agents_refused_total', `reason="${reason}"`)('a')
const gitlab = (status: string) =>
  of('kas_gitlab_call_duration_seconds_count', `path="/internal/kubernetes/agent_info",status="${status}"`)('a')
const gitaly = (grpcCode: string) =>
  of('kas_gitaly_call_duration_seconds_count', `grpc_method="FindCommit",grpc_code="${grpcCode}"`)('a')

/** Two replicas and an agentk, in use and without faults. */
const sound: Series = {
  ...both('up', '', always(1)),
  ...both('kas_members', '', always(2)),
  ...both('kas_replica_links', 'reach="reachable"', always(1)),
  ...both('kas_replica_links', 'reach="down"', always(0)),
  ...both('kas_gossip_refused_total', 'reason="handshake"', always(3)),
  ...both('kas_replica_strangers_total', '', always(0)),
  ...both('kas_discovery_sources_stale', '', always(0)),
  ...both('kas_discovery_sources_silent', '', always(0)),
  ...both('kas_row_pulls_total', 'result="ok"', steady(2)),
  ...both('kas_row_pulls_total', 'result="failed"', always(1)),
  ...both('kas_kubernetes_errors_total', 'code="AGENT_NOT_ALLOWED"', steady(5)),
  [code('HOLDER_UNREACHABLE')]: burst(4),
  [code('TUNNEL_LOST')]: burst(6),
  [code('INTERNAL')]: always(0),
  ...both('kas_access_log_lost_lines_total', 'class="read"', always(0)),
  ...both('k8s_api_proxy_routing_timeout_total', '', burst(1)),
  [refused('upgrade')]: steady(3),
  [refused('unauthenticated')]: always(0),
  [refused('directory_unavailable')]: always(0),
  ...both('kas_directory_file_failed', '', always(0)),
  ...both('kas_directory_tokens_ending', 'kind="user"', always(0)),
  [gitlab('200')]: steady(100),
  [gitlab('404')]: steady(1),
  [gitlab('502')]: burst(2),
  [gitaly('OK')]: begins(500),
  [gitaly('NotFound')]: begins(50),
  ...both('kas_gitlab_credentials_unchecked_total', 'kind="agents"', always(0)),
  ...both('kas_gitlab_unserved_calls_total', 'service="Provisioner"', always(0)),
  ...both('kas_gitlab_unserved_calls_total', 'service="AutoFlow"', steady(1)),
  ...both('nodejs_eventloop_lag_p99_seconds', '', interrupted(0.02, 0.5, 2)),
  [agentk('agentk_kas_connected')]: interrupted(1, 0, 1),
  [agentk('agentk_leader')]: interrupted(1, 0, 1),
  [agentk('agentk_gitops_rounds_total', 'result="synced"')]: steady(2),
  [agentk('agentk_gitops_rounds_total', 'result="failing"')]: always(0),
  [agentk('agentk_gitops_prune_survivors', 'source="1"')]: interrupted(0, 4, 10),
  [agentk('agentk_flux_webhooks_failed_total')]: always(0),
  [agentk('agentk_views_thread_ends_total')]: burst(1),
}

const a = (name: string, labels = '') => of(name, labels)('a')

/** Changes of `sound` for which a rule must fire. Each of them alone is enough. */
const faults: Readonly<Record<string, readonly Series[]>> = {
  KasReplicasTooFew: [
    { [a('up')]: interrupted(1, 0, 20) },
    both('up', '', interrupted(1, 0, 20)),
    both('up', '', `1+0x30 _x${minutes}`),
  ],
  KasMembersDiffer: [{ [a('kas_members')]: interrupted(2, 1, 5) }],
  KasMembersAreNotUp: [both('kas_members', '', interrupted(2, 1, 10))],
  KasReplicasCannotCall: [
    { [a('kas_replica_links', 'reach="down"')]: interrupted(0, 1, 10) },
    { [a('kas_replica_links', 'reach="unreachable"')]: `_x30 1+0x${minutes}` },
  ],
  KasGossipRefused: [
    { [a('kas_gossip_refused_total', 'reason="handshake"')]: burst(500) },
    { [a('kas_gossip_refused_total', 'reason="author"')]: steady(1) },
  ],
  KasStrangers: [{ [a('kas_replica_strangers_total')]: burst(1) }],
  KasDiscoveryFails: [
    { [a('kas_discovery_sources_stale')]: interrupted(0, 1, 10) },
    { [a('kas_discovery_sources_silent')]: always(1) },
  ],
  KasRowsAreNotFetched: [
    { [a('kas_row_pulls_total', 'result="failed"')]: burst(50) },
    { [a('kas_row_pulls_total', 'result="failed"')]: steady(1) },
  ],
  KasCallsLost: [{ [code('HOLDER_UNREACHABLE')]: burst(500) }, { [code('TUNNEL_LOST')]: steady(2) }],
  KasInternalErrors: [{ [code('INTERNAL')]: burst(1) }],
  KasAccessLogLost: [{ [a('kas_access_log_lost_lines_total', 'class="read"')]: burst(1) }],
  KasAgentsAbsent: [
    { [a('k8s_api_proxy_routing_timeout_total')]: burst(500) },
    { [a('k8s_api_proxy_routing_timeout_total')]: steady(1) },
  ],
  KasAgentsRefused: [{ [refused('unauthenticated')]: burst(500) }, { [refused('rate_exceeded')]: steady(1) }],
  KasDirectoryUnavailable: [{ [refused('directory_unavailable')]: burst(500) }],
  KasDirectoryFileFailed: [{ [a('kas_directory_file_failed')]: interrupted(0, 1, 10) }],
  KasTokensEnd: [{ [a('kas_directory_tokens_ending', 'kind="user"')]: always(1) }],
  KasGitlabFails: [{ [gitlab('none')]: begins(500) }, { [gitlab('502')]: burst(500) }, { [gitlab('500')]: steady(2) }],
  KasGitalyFails: [{ [gitaly('Unavailable')]: begins(500) }, { [gitaly('DeadlineExceeded')]: steady(2) }],
  KasCredentialsUnchecked: [{ [a('kas_gitlab_credentials_unchecked_total', 'kind="agents"')]: burst(500) }],
  KasJobsFailUnserved: [{ [a('kas_gitlab_unserved_calls_total', 'service="Provisioner"')]: burst(1) }],
  KasOverloaded: [{ [a('nodejs_eventloop_lag_p99_seconds')]: interrupted(0.02, 0.5, 10) }],
  AgentkNotConnected: [{ [agentk('agentk_kas_connected')]: interrupted(1, 0, 5) }],
  AgentkLeaders: [
    { [agentk('agentk_leader')]: interrupted(1, 0, 5) },
    { [agentk('agentk_leader').replace('pod-0', 'pod-1')]: always(1) },
  ],
  AgentkGitopsFails: [
    { [agentk('agentk_gitops_rounds_total', 'result="failing"')]: burst(1) },
    { [agentk('agentk_gitops_rounds_total', 'result="refused"')]: steady(1) },
  ],
  AgentkGitopsSurvivors: [{ [agentk('agentk_gitops_prune_survivors', 'source="1"')]: interrupted(0, 4, 60) }],
  AgentkGitopsDrift: [{ [agentk('agentk_gitops_drifted_objects', 'source="1"')]: interrupted(0, 4, 60) }],
  AgentkGitopsNotCompared: [{ [agentk('agentk_gitops_not_compared_objects', 'source="1"')]: interrupted(0, 4, 60) }],
  AgentkGitopsUnhealthy: [
    { [agentk('agentk_gitops_unhealthy_objects', 'source="1",verdict="degraded"')]: interrupted(0, 4, 60) },
  ],
  AgentkFluxWebhooksFail: [{ [agentk('agentk_flux_webhooks_failed_total')]: burst(1) }],
  AgentkViewsRestart: [{ [agentk('agentk_views_thread_ends_total')]: burst(9) }],
}

const hasFired = (alerts: string) => `count_over_time(ALERTS{${alerts}alertstate="firing"}[${minutes}m])`

const seriesOf = (series: Series) => Object.entries(series).map(([name, values]) => ({ series: name, values }))

const worlds = [
  {
    name: 'all is well',
    interval: '1m',
    input_series: seriesOf(sound),
    promql_expr_test: [{ expr: hasFired(''), eval_time: `${minutes}m`, exp_samples: [] }],
  },
  ...Object.entries(faults).flatMap(([alert, each]) =>
    each.map((fault) => ({
      name: `${alert}: ${Object.keys(fault)[0]}`,
      interval: '1m',
      input_series: seriesOf({ ...sound, ...fault }),
      promql_expr_test: [
        {
          expr: `count(${hasFired(`alertname="${alert}",`)}) > bool 0`,
          eval_time: `${minutes}m`,
          exp_samples: [{ labels: '{}', value: 1 }],
        },
      ],
    })),
  ),
]

t.test('each rule has its faults', async (t) => {
  t.strictSame(Object.keys(faults).sort(), rules.map(({ alert }) => alert).sort())
})

const found = await promtool()
const program = 'program' in found ? found.program : ''
const skip = 'lacks' in found && found.lacks

t.test('promtool takes the rules', { skip }, async (t) => {
  const { status, stdout, stderr } = spawnSync(program, ['check', 'rules', rulesFile], { encoding: 'utf8' })
  t.equal(status, 0, `${stdout}${stderr}`)
  t.match(stdout, `${rules.length} rules found`)
})

t.test('each rule fires on its fault, first bursts included, and none where all is well', { skip }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'alerts-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'worlds.yaml')
  const tried = async (tests: readonly object[]) => {
    await writeFile(file, JSON.stringify({ rule_files: [rulesFile], evaluation_interval: '1m', tests }))
    return spawnSync(program, ['test', 'rules', file], { encoding: 'utf8' })
  }
  const { status, stdout } = await tried(worlds.map(({ name: _, ...world }) => world))
  t.equal(status, 0, stdout)
  // one by one, to name those that fail
  for (const { name, ...world } of status === 0 ? [] : worlds) {
    const { status, stdout, stderr } = await tried([world])
    t.equal(status, 0, `${name}\n${stdout}${stderr}`)
  }
})
