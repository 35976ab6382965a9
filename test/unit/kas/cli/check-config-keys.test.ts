import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import type { ZodType } from 'zod'
import { parseAgentConfiguration } from '../../../../src/kas/agent-config/agent-config-file.ts'
import { decisiveKeys as ofAgentFile, withBlocks } from '../../../../src/kas/agent-config/agent-config-schema.ts'
import { blocksOf } from '../../../../src/kas/agent-config/module-schema.ts'
import { parseKasConfig } from '../../../../src/kas/config/kas-config.ts'
import { kasConfigSchema, decisiveKeys as ofKas } from '../../../../src/kas/config/kas-schema.ts'
import { directorySchema, decisiveKeys as ofDirectory } from '../../../../src/kas/directory/file/directory-schema.ts'
import { moduleSchemas } from '../../../../src/kas/module-schemas.ts'
import { type DecisiveKeys, takeUnknownKeys } from '../../../../src/lib/unknown-keys.ts'
import { checkFile, configFolder } from '../../../support/check-config.ts'

/** check-config reports a misspelt key as an error if it decides who may do what, or where kas listens. */

const agentSchema = withBlocks(blocksOf(moduleSchemas.list))
const files: Readonly<Record<string, { schema: ZodType; keys: DecisiveKeys }>> = {
  kas: { schema: kasConfigSchema, keys: ofKas },
  directory: { schema: directorySchema, keys: ofDirectory },
  agent: { schema: agentSchema, keys: ofAgentFile },
}

/** A file with only this key; `last` replaces the last part of the path. */
function treeAt(path: string, last: string, value: unknown): Record<string, unknown> {
  const [first = '', ...rest] = path.split('.')
  const name = first.replace(/\[\]/g, '')
  if (rest.length === 0) return { [last]: value }
  const inner = treeAt(rest.join('.'), last, value)
  return { [name]: first.endsWith('[]') ? [inner] : inner }
}

const lastOf = (path: string) => path.slice(path.lastIndexOf('.') + 1)

/** Misspellings of a name: one or two edits, or another style such as camel case. */
function misspelt(name: string): string[] {
  const half = Math.floor(name.length / 2)
  const swapped = name.slice(0, half - 1) + name[half] + name[half - 1] + name.slice(half + 1)
  return [
    `${name}s`,
    `${name}zz`,
    name.slice(1),
    name.slice(0, -1),
    `${name.slice(0, half)}x${name.slice(half)}`,
    `${name.slice(0, half)}q${name.slice(half + 1)}`,
    swapped,
    name.toUpperCase(),
    name.replaceAll('_', '-'),
    name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
  ].filter((one) => one !== name && one !== '')
}

function unknownIn(kind: string, raw: unknown) {
  const { schema, keys } = files[kind] as { schema: ZodType; keys: DecisiveKeys }
  return takeUnknownKeys({ raw, tree: structuredClone(raw) }, { schema, decisive: keys })
}

for (const [kind, { keys }] of Object.entries(files)) {
  t.test(`each decisive key of the ${kind} file, at each level, with one or two edits`, async (t) => {
    let tried = 0
    for (const path of keys) {
      t.strictSame(unknownIn(kind, treeAt(path, lastOf(path), 1)), [], `${path} is known`)
      for (const wrong of misspelt(lastOf(path))) {
        const found = unknownIn(kind, treeAt(path, wrong, 1))
        if (found.length === 0) continue // the misspelling is another known key
        tried++
        t.match(found, [{ isDecisive: true, hint: String }], `${path} as ${wrong}`)
      }
      const empty = unknownIn(kind, treeAt(path, `${lastOf(path)}zz`, null))
      t.match(empty, [{ isDecisive: true, isEmpty: true }], `${path}, misspelt and without a value`)
    }
    t.ok(tried > 100, `${tried} were tried`)
  })
}

t.test('a key that says nothing of these, or is far from each, is none', async (t) => {
  const kinds = {
    kas: [{ ledger: 1 }, { observability: { loging: {} } }, { agent: { listen: { listen_grace_perod: '1s' } } }],
    directory: [{ projects: [{ git: { poll_perod: '1s' } }] }, { users: [{ full_name: 'Ada' }] }, { comment: 'x' }],
    agent: [{ observabilty: {} }, { remote_developement: {} }, { starboard: {} }],
  }
  for (const [kind, trees] of Object.entries(kinds)) {
    for (const tree of trees) {
      const [one, ...more] = unknownIn(kind, tree)
      t.strictSame(more, [])
      t.ok(one && !one.isDecisive, `${kind}: ${JSON.stringify(tree)}`)
    }
  }
})

t.test('a decisive key in another block than its own is named with its place', async (t) => {
  const cases: readonly [kind: string, tree: unknown, hint: string][] = [
    ['kas', { kubernetes_api: {} }, 'agent.kubernetes_api'],
    ['kas', { api: { authentication_secret_file: 'a' } }, 'api.listen.authentication_secret_file'],
    ['kas', { agent: { certificate_file: 'a' } }, 'agent.listen.certificate_file'],
    ['directory', { projects: [{ hook_secret_file: 'a' }] }, 'projects[].git.hook_secret_file'],
    ['agent', { projects: [{ id: 'a/b' }] }, 'ci_access.projects'],
    ['agent', { user_access: { impersonate: {} } }, 'ci_access.projects[].access_as.impersonate'],
  ]
  for (const [kind, tree, hint] of cases) t.match(unknownIn(kind, tree), [{ isDecisive: true, hint }], hint)
})

t.test('a thousand other unknown keys hide none', async (t) => {
  const others = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`something_else_${i}`, 1]))
  const found = unknownIn('directory', { ...others, usrs: [] })
  t.match(found.at(-1), { path: ['usrs'], hint: 'users', isDecisive: true })
})

async function check(t: Test, option: string, text: string, ...more: readonly string[]) {
  const { write } = await configFolder(t)
  return await checkFile(t, option, await write('config.yaml', text), more)
}

const token = { sha256: 'a'.repeat(64) }
const alone = { directory: { file: 'd.yaml' } }
/** inputs that ended with 0 and `can be used` at d6580cdb, and similar ones */
const typed: readonly [option: string, tree: object, said: string][] = [
  [
    'directory',
    { usrs: [{ id: 5, username: 'ada', tokens: [token] }] },
    'line 1: usrs: this key is not known, did you mean users?',
  ],
  ['directory', { agent: [] }, 'line 1: agent: this key is not known, did you mean agents?'],
  [
    'directory',
    { users: [{ id: 5, username: 'ada', token: [token] }] },
    'line 4: users[0].token: this key is not known, did you mean users[0].tokens?',
  ],
  ['directory', { users: [{ id: 5, username: 'ada', role: {} }] }, 'did you mean users[0].roles?'],
  [
    'directory',
    { users: [{ id: 5, username: 'ada', tokens: [{ ...token, expire: '2020-01-01' }] }] },
    'did you mean users[0].tokens[0].expires?',
  ],
  [
    'directory',
    { projects: [{ id: 1, path: 'a/b', git: { url: '/srv/a', default_brunch: 'main' } }] },
    'did you mean projects[0].git.default_branch?',
  ],
  [
    'agent-file',
    { user_acces: { access_as: { agent: {} } } },
    'line 1: user_acces: this key is not known, did you mean user_access?',
  ],
  ['agent-file', { ci_acess: { projects: [{ id: 'a/b' }] } }, 'did you mean ci_access?'],
  [
    'agent-file',
    { ci_access: { projects: [{ id: 'a/b', enviroments: ['prod'] }] } },
    'did you mean ci_access.projects[0].environments?',
  ],
  [
    'agent-file',
    { ci_access: { projects: [{ id: 'a/b', protected_branch_only: true }] } },
    'did you mean ci_access.projects[0].protected_branches_only?',
  ],
  [
    'agent-file',
    { user_access: { access_as: { usr: {} }, projects: [{ id: 'a/b' }] } },
    'did you mean user_access.access_as.user?',
  ],
  [
    'configuration-file',
    { ...alone, agent: { kubernets_api: {} } },
    'line 4: agent.kubernets_api: this key is not known, did you mean agent.kubernetes_api?',
  ],
  [
    'configuration-file',
    { ...alone, agent: { kubernetes_api: { listn: {} } } },
    'did you mean agent.kubernetes_api.listen?',
  ],
  ['configuration-file', { ...alone, agent: { listen: { adress: ':8150' } } }, 'did you mean agent.listen.address?'],
  [
    'configuration-file',
    { ...alone, agent: { listen: { certificate_fil: 'a' } } },
    'did you mean agent.listen.certificate_file?',
  ],
  ['configuration-file', { ...alone, op: { socket: '/run/kas.sock' } }, 'did you mean ops?'],
]

t.test('each ends with 1 and the nearest key, and a program that reads the file warns once', async (t) => {
  for (const [option, tree, said] of typed) {
    const { code, stdout } = await check(t, option, stringify(tree))
    t.equal(code, 1, said)
    t.match(stdout, said)
    t.match(stdout, 'config.yaml: cannot be used')
    const json = await check(t, option, stringify(tree), '--output', 'json')
    const [file] = JSON.parse(json.stdout).files
    t.equal(file.usable, false)
    t.equal(file.problems.length, 1)
    t.strictSame(file.withoutEffect, [])
  }
  const { warnings } = parseKasConfig('kas.yaml', stringify({ ...alone, agent: { kubernets_api: {} } }))
  t.match(warnings, [{ kind: 'unknown', key: 'agent.kubernets_api', isDecisive: true }])
  t.equal(warnings.length, 1)
  const agent = parseAgentConfiguration('config.yaml', Buffer.from('user_acces: {}\n'), moduleSchemas.list)
  t.match(agent.warnings, [{ kind: 'unknown', key: 'user_acces', hint: 'user_access' }])
})

t.test('a key whose absence makes another one wrong is named beside it', async (t) => {
  const projects = [{ id: 1, path: 'platform/clusters' }]
  const agents = [{ id: 42, name: 'prod', project: 1 }]
  const missing = await check(t, 'directory', stringify({ proyects: projects, agents }))
  t.equal(missing.code, 1)
  t.match(missing.stdout, 'agents[0].project: found 1, allowed: the id of one of projects')
  t.match(missing.stdout, 'proyects: this key is not known, did you mean projects?')
  const hash = await check(t, 'directory', stringify({ users: [{ id: 5, username: 'a', tokens: [{ sha265: 'a' }] }] }))
  t.match(hash.stdout, 'users[0].tokens[0]: found a block of keys, allowed: sha256 as 64 hexadecimal digits')
  t.match(hash.stdout, 'users[0].tokens[0].sha265: this key is not known, did you mean users[0].tokens[0].sha256?')
  const access = { user_acces: {}, ci_access: { projects: [{ id: 'a/b', access_as: {} }] } }
  const empty = await check(t, 'agent-file', stringify(access))
  t.match(empty.stdout, 'ci_access.projects[0].access_as: found nothing, allowed: agent, impersonate or ci_job')
  t.match(empty.stdout, 'user_acces: this key is not known, did you mean user_access?')
})

/** Returns all keys of a schema, at each level. */
function pathsOf(schema: ZodType, at = ''): string[] {
  const { def } = schema as unknown as { def: { innerType?: ZodType; element?: ZodType; shape?: object; in?: ZodType } }
  if (def.innerType) return pathsOf(def.innerType, at)
  if (def.element) return pathsOf(def.element, `${at}[]`)
  return Object.entries(def.shape ?? {}).flatMap(([name, child]) => {
    const path = at === '' ? name : `${at}.${name}`
    return [path, ...pathsOf(child as ZodType, path)]
  })
}

/** values that are wrong for most keys */
const wrongValues = [null, true, 'x', '', -1, 1.5, 1e9, {}, { x: 1 }, [], ['x'], [{}], [[]], [null]]
/** words that only the validator uses */
const ownWords = /Invalid|nonoptional|received|expected|Too (big|small)|undefined|NaN|Unrecognized|\bint\b|\brecord\b/

t.test('whatever stands in place of a value, the message has plain words', async (t) => {
  const kinds = { 'configuration-file': files.kas, directory: files.directory, 'agent-file': files.agent }
  let read = 0
  for (const [option, file] of Object.entries(kinds)) {
    for (const path of file ? pathsOf(file.schema) : []) {
      for (const value of wrongValues) {
        const text = stringify(treeAt(path, lastOf(path), value))
        try {
          if (option === 'configuration-file') parseKasConfig('f', text)
          else if (option === 'agent-file') parseAgentConfiguration('f', Buffer.from(text), moduleSchemas.list)
          else (await import('../../../../src/kas/directory/file/directory-contents.ts')).parseDirectory('f', text)
        } catch (error) {
          read++
          const { message } = error as Error
          if (ownWords.test(message)) t.fail(`${path}: ${JSON.stringify(value)}: ${message}`)
        }
      }
    }
  }
  t.ok(read > 500, `${read} messages were read`)
})
