import * as z from 'zod'
import { DecisiveKeys } from '../../lib/unknown-keys.ts'
import type { BlockSchema } from './module-schema.ts'

/**
 * Schema of the agent's configuration file (doc/reference/tunnel-protocol.md 7.2). Keys of later releases with unknown
 * protobuf numbers are checked by name, and not sent to agents.
 */

const text = z.string({ error: 'a text' })
const filled = text.min(1, { error: 'a text that is not empty' })
const flag = z.boolean({ error: 'true or false' })
const block = <Shape extends z.ZodRawShape>(shape: Shape) => z.object(shape, { error: 'a block of keys' })
const list = <S extends z.ZodType>(element: S) => z.array(element, { error: 'a list' }).optional()
const anything = z.unknown().optional()

const durationText = 'seconds such as "300s"'
const duration = z.string({ error: durationText }).regex(/^\d{1,9}(\.\d{1,9})?s$/, { error: durationText })
const positiveDuration = duration.refine((value) => Number.parseFloat(value) > 0, {
  error: `${durationText}, above zero`,
})

/** Refuses more than one key of a oneof. Code that knows the unknown keys checks that there is one. */
function atMostOne(value: object, context: z.RefinementCtx): void {
  const keys = Object.keys(value)
  if (keys.length > 1) context.addIssue({ code: 'custom', message: `one of ${keys.join(', ')}` })
}

const extra = block({ key: filled, val: z.array(filled, { error: 'a list' }).min(1, { error: 'at least one text' }) })
const impersonate = block({ username: filled, groups: list(filled), uid: text.optional(), extra: list(extra) })
const ciAccessAs = block({
  agent: block({}).optional(),
  impersonate: impersonate.optional(),
  ci_job: block({}).optional(),
})

const ciAccess = {
  default_namespace: text.optional(),
  access_as: ciAccessAs.superRefine(atMostOne).optional(),
  environments: list(filled),
  protected_branches_only: flag.optional(),
  resource_management: block({ enabled: flag.optional() }).optional(),
}
const ciAccessEntry = block({ id: filled, ...ciAccess })
const userAccessEntry = block({ id: filled })
const userAccessAs = block({ agent: block({}).optional(), user: block({}).optional() }).superRefine(atMostOne)

const logLevel = z.enum(['info', 'debug', 'warn', 'error'])
const profiler = block({
  enabled: flag.optional(),
  project_id: text.optional(),
  credentials_file: text.optional(),
  debug_logging: flag.optional(),
})
const logging = block({ level: logLevel.optional(), grpc_level: logLevel.optional() })

const cronText = 'five fields of a cron table'
const cron = text.refine((value) => value.trim().split(/\s+/).length === 5, { error: cronText })
const resource = block({ cpu: text.optional(), memory: text.optional(), ephemeral_storage: text.optional() })
const names = list(text)
const filter = block({ namespaces: names, resources: names, containers: names, kinds: names })
const containerScanning = block({
  cadence: cron.optional(),
  vulnerability_report: block({ namespaces: names, filters: list(filter), resource_types: names }).optional(),
  resource_requirements: block({ limits: resource.optional(), requests: resource.optional() }).optional(),
  trivy_k8s_wrapper_image: block({ repository: text.optional(), tag: text.optional() }).optional(),
  scanner_timeout: text.optional(),
  report_max_size: z.union([z.string(), z.number()], { error: 'a text or a number' }).optional(),
  delete_report_artifact: flag.optional(),
  severity_threshold: z.enum(['UNKNOWN', 'LOW', 'MEDIUM', 'HIGH', 'CRITICAL']).optional(),
})

const remoteDevelopment = block({
  enabled: flag.optional(),
  dns_zone: text.optional(),
  partial_sync_interval: positiveDuration.optional(),
  full_sync_interval: positiveDuration.optional(),
  gitlab_workspaces_proxy: block({
    namespace: text.optional(),
    http_enabled: anything,
    ssh_enabled: anything,
  }).optional(),
  network_policy: block({ enabled: flag.optional(), egress: anything }).optional(),
  // Rails evaluates and checks these
  default_resources_per_workspace_container: anything,
  max_resources_per_workspace: anything,
  workspaces_quota: anything,
  workspaces_per_user_quota: anything,
  use_kubernetes_user_namespaces: anything,
  default_runtime_class: anything,
  allow_privilege_escalation: anything,
  image_pull_secrets: anything,
  annotations: anything,
  labels: anything,
  max_active_hours_before_stop: anything,
  max_stopped_hours_before_termination: anything,
  shared_namespace: anything,
})

const agentConfigurationSchema = block({
  ci_access: block({
    projects: list(ciAccessEntry),
    groups: list(ciAccessEntry),
    instance: block(ciAccess).optional(), // of the whole organisation, by GitLab's decision
  }).optional(),
  user_access: block({
    access_as: userAccessAs.optional(),
    projects: list(userAccessEntry),
    groups: list(userAccessEntry),
  }).optional(),
  observability: block({ logging: logging.optional(), google_profiler: profiler.optional() }).optional(),
  container_scanning: containerScanning.optional(),
  remote_development: remoteDevelopment.optional(),
  flux: block({ webhook_receiver_url: text.optional() }).optional(),
})

const asWhom = ['username', 'groups', 'uid', 'extra[].key', 'extra[].val'].map(
  (name) => `access_as.impersonate.${name}`,
)
const ofEntry = ['access_as.agent', ...asWhom, 'access_as.ci_job', 'environments', 'protected_branches_only']
const ofSource = ['id', 'namespaces', 'access_as.service_account.namespace', 'access_as.service_account.name']

/** Keys that decide access to the agent, the identity of callers, and that of sources. */
export const decisiveKeys = DecisiveKeys.of([
  ...['id', ...ofEntry].flatMap((name) => [`ci_access.projects[].${name}`, `ci_access.groups[].${name}`]),
  ...ofEntry.map((name) => `ci_access.instance.${name}`),
  ...['access_as.agent', 'access_as.user', 'projects[].id', 'groups[].id'].map((name) => `user_access.${name}`),
  ...ofSource.map((name) => `gitops.manifest_projects[].${name}`),
])

/** Returns `agentConfigurationSchema` with the blocks of modules. */
export function withBlocks(blocks: readonly BlockSchema[]): typeof agentConfigurationSchema {
  const own: Record<string, z.ZodType> = {}
  for (const { key, schema } of blocks) {
    const isTaken = Object.hasOwn(own, key) || Object.hasOwn(agentConfigurationSchema.shape, key)
    if (isTaken) throw new Error(`the block ${key} has an owner`)
    own[key] = schema.optional()
  }
  return agentConfigurationSchema.extend(own as Record<never, z.ZodType>)
}

export type AgentConfigurationTree = z.output<typeof agentConfigurationSchema>
export type CiAccessTree = z.output<typeof ciAccessEntry>
