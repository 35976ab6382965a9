import * as z from 'zod'

/** agentk's schema of a source before kas and agentk shared one: agents are updated after kas. */

const [maxNamespaces, maxPaths] = [20, 100]
const durationForm = /^(\d{1,9}(?:\.\d{1,9})?)s$/
const percentForm = /^(100|\d{1,2})%$/

const text = z.string().min(1).max(1024)
/** An empty text counts as absent, as in the stock agent. */
const textOrNone = z.string().max(1024)
/** A DNS label of Kubernetes. */
const label = z.string().regex(/^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/, 'is no name of a namespace')
const accountName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?$/, 'is no name of a service account')
const duration = z.string().regex(durationForm, 'is no duration such as 3600s')
/** Paths of the repository, from its root. */
const path = text.refine(
  (value) => !value.startsWith('/') && !value.split('/').includes('..'),
  'leads outside the repository',
)
const rules = z.array(z.object({ api_groups: z.array(z.string()).max(100), kinds: z.array(text).max(100) })).max(100)
const isOne = (value: object) => Object.values(value).filter((part) => part !== undefined).length === 1

export const olderSourceSchema = z
  .object({
    id: text,
    default_namespace: label.or(z.literal('')),
    paths: z
      .array(z.object({ glob: text, file: text }).partial().refine(isOne, 'wants a glob or a file'))
      .max(maxPaths),
    reconcile_timeout: duration,
    dry_run_strategy: z.enum(['none', 'client', 'server']),
    prune: z.boolean(),
    prune_timeout: duration,
    prune_propagation_policy: z.enum(['orphan', 'background', 'foreground']),
    inventory_policy: z.enum(['must_match', 'adopt_if_no_inventory', 'adopt_all']),
    ref: z
      .object({ tag: textOrNone, branch: textOrNone, commit: textOrNone })
      .partial()
      .refine(isOne, 'wants a tag, a branch or a commit'),
    resource_inclusions: rules,
    resource_exclusions: rules,
    name: z.string().regex(/^[a-z0-9-]{1,32}$/, 'wants 1 to 32 of a-z, 0-9 and -'),
    adopt: z.array(z.string().min(1).max(128)).max(100),
    namespaces: z.array(label).min(1).max(maxNamespaces),
    access_as: z.object({ service_account: z.object({ namespace: label, name: accountName }) }),
    kustomize: z.object({ path }),
    helm: z.object({
      chart: path,
      values: z.array(path).max(maxPaths).optional(),
      release: z
        .string()
        .max(53)
        .regex(/^[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?$/, 'is no name of a release'),
    }),
    prune_confirm: z.array(text).max(100),
    prune_limit: z.union([
      z.string().regex(percentForm, 'wants a number of objects or a share such as 50%'),
      z.int().min(0),
    ]),
    on_removal: z.enum(['keep', 'prune']),
    conflicts: z.enum(['force', 'fail']),
    environments: z.array(text).max(100),
  })
  .partial()
  .refine(({ kustomize, helm }) => !(kustomize && helm), 'wants kustomize or helm, not both')
