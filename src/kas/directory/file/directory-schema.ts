import * as z from 'zod'
import { boundedDurationSchema } from '../../../lib/config.ts'
import { DecisiveKeys } from '../../../lib/unknown-keys.ts'
import { problemOfRepositoryUrl } from '../../repositories/repository-url.ts'
import { roleNames } from './roles.ts'

/** Schema of the directory file (doc/reference/directory.md). Errors never contain token hashes or URLs. */

const idText = 'a whole number above zero'
const id = z.int({ error: idText }).positive({ error: idText })
const idKey = z.string().regex(/^[1-9]\d{0,15}$/, { error: 'the id of a project or group' })
const pathText = 'a full path such as platform/clusters'
const fullPath = z.string({ error: pathText }).regex(/^[\w.-]+(\/[\w.-]+)*$/, { error: pathText })
const nameText = 'at most 63 lower-case letters, digits and hyphens, not at either end a hyphen'
const agentName = z.string({ error: nameText }).regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, { error: nameText })
const plainText = (allowed: string) => z.string({ error: allowed }).min(1, { error: allowed })
const list = <S extends z.ZodType>(element: S) => z.array(element, { error: 'a list' }).prefault([])

const expiresText = 'a date such as 2027-01-01 (its 00:00 UTC) or a time such as 2027-01-01T08:00:00Z'
const expires = z.string({ error: expiresText }).refine(isInstant, { error: expiresText })

/** True for `2027-01-01` or RFC 3339, with days that exist. */
function isInstant(text: string): boolean {
  const match = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.exec(text)
  const day = Date.parse(`${match?.[1]}T00:00:00Z`)
  return (
    !Number.isNaN(day) && new Date(day).toISOString().slice(0, 10) === match?.[1] && !Number.isNaN(Date.parse(text))
  )
}

const hashText = 'sha256 as 64 hexadecimal digits (never the token itself)'
/** Checks the hash at the object, so that an error does not show the value: it may be a token by mistake. */
function checkHash(token: { sha256?: unknown }, context: z.RefinementCtx): void {
  if (typeof token.sha256 === 'string' && /^[0-9a-f]{64}$/i.test(token.sha256)) return
  context.addIssue({ code: 'custom', message: hashText })
}
const hash = { sha256: z.unknown().optional() }
const tokenNameText = 'at most 253 printable characters'
const tokenName = z
  .string({ error: tokenNameText })
  .regex(/^(?!\s)[^\p{C}\p{Zl}\p{Zp}]{1,253}(?<!\s)$/u, { error: tokenNameText })
const token = z
  .object({ name: tokenName.optional(), ...hash, expires: expires.optional() }, { error: 'a block of keys' })
  .superRefine(checkHash)

const git = z
  .object({
    url: z.unknown().optional(),
    credentials_file: plainText('the path of a file').optional(),
    default_branch: plainText('the name of a branch')
      .regex(/^(?!-)[^\s~^:?*[\\]+$/, { error: 'the name of a branch' })
      .optional(),
    poll_period: boundedDurationSchema({ min: '1s', max: '24h' }).optional(),
    hook_secret_file: plainText('the path of a file').optional(),
  })
  .superRefine((value, context) => {
    const problem = typeof value.url === 'string' ? problemOfRepositoryUrl(value.url) : 'url as a text'
    if (problem) context.addIssue({ code: 'custom', message: `as url ${problem}` })
    const isHttps = typeof value.url === 'string' && value.url.startsWith('https://')
    if (problem || !value.credentials_file || isHttps) return
    const message =
      'credentials_file with an https URL only (ssh reads the ssh configuration of the user that runs kas)'
    context.addIssue({ code: 'custom', message })
  })

const project = z.object({ id, path: fullPath, groups: list(z.object({ id, path: fullPath })), git: git.optional() })
const agent = z.object({ id, name: agentName, project: id, reads: list(id), tokens: list(token) })
const roles = z.record(idKey, z.array(z.enum(roleNames), { error: 'a list of roles' }), {
  error: 'ids with lists of roles',
})
const user = z.object({
  id,
  username: plainText('a user name'),
  tokens: list(token),
  roles: z.object({ projects: roles.prefault({}), groups: roles.prefault({}) }).prefault({}),
})
const environment = z.object({
  slug: plainText('the slug of an environment'),
  tier: plainText('the tier of an environment'),
  name: plainText('the name of an environment').optional(),
})
const ciToken = z
  .object({
    ...hash,
    user: id,
    project: id,
    job: id,
    pipeline: id,
    environment: environment.optional(),
    expires: expires.optional(),
  })
  .superRefine(checkHash)

const labels = z.record(plainText('a label'), plainText('the value of a label'), {
  error: 'labels with values',
})
const slug = z
  .string({ error: 'the slug of an environment' })
  .regex(/^[\w.-]{1,253}$/, { error: 'the slug of an environment' })
const deployed = z.object(
  { agent: id, namespace: plainText('a namespace').optional(), selector: labels.prefault({}) },
  { error: 'a block of keys' },
)
/** objects in clusters that belong to an environment */
const environmentOfClusters = z.object({ project: id, slug, on: list(deployed) })

/** per list: ids up to this one are used up, also by entries that were removed */
const lastId = z.int({ error: idText }).nonnegative({ error: idText }).optional()
const lastIds = z.object({ agents: lastId, users: lastId }, { error: 'a block of keys' }).prefault({})

export const directorySchema = z.object({
  projects: list(project),
  agents: list(agent),
  users: list(user),
  ci_tokens: list(ciToken),
  environments: list(environmentOfClusters),
  last_ids: lastIds,
})

const ofList = (list: string, ...names: readonly string[]) => names.map((name) => `${list}[].${name}`)
const ofToken = ['tokens[].sha256', 'tokens[].expires']

/** Keys that decide about access: all but names of tokens, poll periods, and environments for views. */
export const decisiveKeys = DecisiveKeys.of([
  ...ofList('projects', 'id', 'path', 'groups[].id', 'groups[].path'),
  ...ofList('projects', 'git.url', 'git.credentials_file', 'git.default_branch', 'git.hook_secret_file'),
  ...ofList('agents', 'id', 'name', 'project', 'reads', ...ofToken),
  ...ofList('users', 'id', 'username', ...ofToken, 'roles.projects', 'roles.groups'),
  ...ofList('ci_tokens', 'sha256', 'user', 'project', 'job', 'pipeline', 'expires'),
  ...ofList('ci_tokens', 'environment.slug', 'environment.tier', 'environment.name'),
  'last_ids.agents',
  'last_ids.users',
])

export type DirectoryTree = z.output<typeof directorySchema>
