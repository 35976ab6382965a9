import { type WireSection, wireSection } from './row.ts'

/** What the whole file may be. */
export const agentFileRows = wireSection('Agents’ configuration file', [
  ['file.absent', 'W 2.9', 'defined', 'an absent file is an empty one'],
  ['file.yaml', 'W 2.9', 'defined', 'what is no YAML, or no block of keys: `Config: …`'],
  ['file.unknown', 'G 9.3 no. 23', 'defined', 'an unknown key warns, with the nearest name'],
  [
    'file.unknown.entry',
    'G 9.3 no. 23',
    'defined',
    'under an entry of `ci_access` or `user_access` it refuses that entry',
  ],
  ['file.one-of', 'W 7.2', 'defined', '`access_as`: exactly one of its keys'],
  ['file.500', 'G 4.3', 'defined', 'the first 500 entries of a list count'],
  ['file.gitops', 'W 7.2, G 9.5 no. 42', 'defined', '`gitops` is taken, with a warning'],
])

/** `[]` stands for one element of a list; a wrong value is absent where kas leaves the judgement to GitLab. */
export type AgentFileKey = readonly [path: string, good: unknown, wrong?: unknown]

const access = (entry: string): AgentFileKey[] => [
  [`${entry}.default_namespace`, 'n', 5],
  [`${entry}.access_as.agent`, {}, 'x'],
  [`${entry}.access_as.ci_job`, {}, 'x'],
  [`${entry}.access_as.impersonate.username`, 'robot', ''],
  [`${entry}.access_as.impersonate.groups[]`, 'g', ''],
  [`${entry}.access_as.impersonate.uid`, 'u', 5],
  [`${entry}.access_as.impersonate.extra[].key`, 'k', ''],
  [`${entry}.access_as.impersonate.extra[].val`, ['v'], []],
  [`${entry}.environments[]`, 'review/*', ''],
  [`${entry}.protected_branches_only`, true, 'yes'],
  [`${entry}.resource_management.enabled`, true, 'yes'],
]

const filter = 'container_scanning.vulnerability_report.filters[]'
const requirements = 'container_scanning.resource_requirements'
const workspaces = 'remote_development'
const manifests = 'gitops.manifest_projects[]'

/** Every key of the file. */
export const agentFileKeys: readonly AgentFileKey[] = [
  ['ci_access.projects[].id', 'a/b', ''],
  ...access('ci_access.projects[]'),
  ['ci_access.groups[].id', 'a', ''],
  ...access('ci_access.groups[]'),
  ...access('ci_access.instance'),
  ['user_access.access_as.agent', {}, 'x'],
  ['user_access.access_as.user', {}, 'x'],
  ['user_access.projects[].id', 'a/b', ''],
  ['user_access.groups[].id', 'a', ''],
  ['observability.logging.level', 'warn', 'loud'],
  ['observability.logging.grpc_level', 'warn', 'loud'],
  ['observability.google_profiler.enabled', false, 'no'],
  ['observability.google_profiler.project_id', 'p', 5],
  ['observability.google_profiler.credentials_file', '/f', 5],
  ['observability.google_profiler.debug_logging', false, 'no'],
  ['container_scanning.cadence', '0 0 * * *', 'daily'],
  ['container_scanning.vulnerability_report.namespaces', ['n'], 'n'],
  ['container_scanning.vulnerability_report.resource_types', ['Pod'], 'Pod'],
  [`${filter}.namespaces`, ['n'], 'n'],
  [`${filter}.resources`, ['r'], 'r'],
  [`${filter}.containers`, ['c'], 'c'],
  [`${filter}.kinds`, ['Pod'], 'Pod'],
  ...['limits', 'requests'].flatMap((kind): AgentFileKey[] => [
    [`${requirements}.${kind}.cpu`, '1m', 1],
    [`${requirements}.${kind}.memory`, '1Gi', 1],
    [`${requirements}.${kind}.ephemeral_storage`, '1Gi', 1],
  ]),
  ['container_scanning.trivy_k8s_wrapper_image.repository', 'r', 5],
  ['container_scanning.trivy_k8s_wrapper_image.tag', 't', 5],
  ['container_scanning.scanner_timeout', '5m', 300],
  ['container_scanning.report_max_size', '100MB', []],
  ['container_scanning.delete_report_artifact', true, 'yes'],
  ['container_scanning.severity_threshold', 'HIGH', 'high'],
  [`${workspaces}.enabled`, true, 'yes'],
  [`${workspaces}.dns_zone`, 'z', 5],
  [`${workspaces}.partial_sync_interval`, '10s', '0s'],
  [`${workspaces}.full_sync_interval`, '3600s', '0s'],
  [`${workspaces}.gitlab_workspaces_proxy.namespace`, 'n', 5],
  [`${workspaces}.gitlab_workspaces_proxy.http_enabled`, true],
  [`${workspaces}.gitlab_workspaces_proxy.ssh_enabled`, true],
  [`${workspaces}.network_policy.enabled`, true, 'yes'],
  [`${workspaces}.network_policy.egress`, [{ allow: '0.0.0.0/0', except: ['10.0.0.0/8'] }]],
  [`${workspaces}.default_resources_per_workspace_container`, {}],
  [`${workspaces}.max_resources_per_workspace`, {}],
  [`${workspaces}.workspaces_quota`, 5],
  [`${workspaces}.workspaces_per_user_quota`, 5],
  [`${workspaces}.use_kubernetes_user_namespaces`, true],
  [`${workspaces}.default_runtime_class`, 'r'],
  [`${workspaces}.allow_privilege_escalation`, false],
  [`${workspaces}.image_pull_secrets`, [{ name: 's', namespace: 'n' }]],
  [`${workspaces}.annotations`, { a: 'b' }],
  [`${workspaces}.labels`, { a: 'b' }],
  [`${workspaces}.max_active_hours_before_stop`, 36],
  [`${workspaces}.max_stopped_hours_before_termination`, 722],
  [`${workspaces}.shared_namespace`, 'n'],
  ['flux.webhook_receiver_url', 'http://x', 5],
  [`${manifests}.id`, 'a/b', ''],
  [`${manifests}.default_namespace`, 'n', 5],
  [`${manifests}.paths[].glob`, '**/*.yaml', ''],
  [`${manifests}.reconcile_timeout`, '300s', 'soon'],
  [`${manifests}.dry_run_strategy`, 'client', 'x'],
  [`${manifests}.prune`, false, 'no'],
  [`${manifests}.prune_timeout`, '300s', 'soon'],
  [`${manifests}.prune_propagation_policy`, 'orphan', 'x'],
  [`${manifests}.inventory_policy`, 'adopt_all', 'x'],
  [`${manifests}.ref.branch`, 'main', 5],
  [`${manifests}.ref.tag`, 'v1', 5],
  [`${manifests}.ref.commit`, 'c', 5],
]

export const agentFileKeyRows: WireSection = {
  title: 'Agents’ configuration file: keys',
  rows: agentFileKeys.map(([path, good, wrong]) => ({
    id: `file-key.${path}`,
    source: 'W 7.2',
    confirmed: 'defined',
    what: `\`${path}\`: ${shown(good)}${wrong === undefined ? ', any value' : `, not ${shown(wrong)}`}`,
  })),
}

function shown(value: unknown): string {
  return `\`${JSON.stringify(value)}\``
}
