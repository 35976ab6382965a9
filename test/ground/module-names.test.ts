import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'

/** Files of the host that name no module. Only `app.ts` names them. */
const namesNone = [
  'kas/host.ts',
  'kas/module.ts',
  'kas/agent-method.ts',
  'kas/own-endpoint.ts',
  'kas/peering.ts',
  'kas/ports.ts',
  'kas/servers/*.ts',
  'kas/servers/agents/*.ts',
  'kas/servers/agents/limits/*.ts',
  'kas/servers/kubernetes/*.ts',
  'kas/servers/kubernetes/{authorization,endpoints,http,request,response,websocket}/*.ts',
  'agentk/module.ts',
  'agentk/tunnels/*.ts',
  'proto/placement.ts',
]

/** Modules with a name that also has another meaning there. */
const otherMeanings = new Set([
  'configuration', // the configuration of kas itself
  'kubernetes-api', // the server that agents reach, and keys of its configuration
  'leader', // the pod that holds the lease
  'repositories', // a room of kas
])
/** Keys of the configuration have upstream's names. */
const keys = /\bagent\.gitops\.project_info_cache(?:_error)?_ttl\b/g

const source = join(import.meta.dirname, '../../src')
const modules = globSync('{kas,agentk}/modules/*', { cwd: source })
  .map((folder) => basename(folder))
  .filter((name) => !otherMeanings.has(name))

/** Matches the module as a word or as a part of a name: `views`, `ViewFeeds`, `known_tokens`. */
function patternOf(module: string): RegExp {
  const word = module.replace(/s$/, '').replaceAll('-', '[-_ ]?')
  const name = word.charAt(0).toUpperCase() + word.slice(1)
  return new RegExp(`(?<![a-z])${word}s?(?![a-z])|(?<![A-Z])${name}s?(?![a-z])`)
}

/** @returns lines that name a module: file, line number and module */
function named(text: string, file: string, names: readonly string[]): string[] {
  return text.split('\n').flatMap((line, i) => {
    const found = names.filter((name) => patternOf(name).test(line.replaceAll(keys, '')))
    return found.map((name) => `${file}:${i + 1} ${name}`)
  })
}

t.test('the contract of modules, its hosts and servers name no module', async (t) => {
  const files = globSync(namesNone, { cwd: source })
  t.ok(files.length > 50 && modules.length > 8, 'they are found')
  t.strictSame(
    files.flatMap((file) => named(readFileSync(join(source, file), 'utf8'), file, modules)),
    [],
  )
})

t.test('one that is named is found', async (t) => {
  const lines = [
    'readonly views?: ViewFeeds',
    'import { createFlux } from x',
    'known_tokens',
    'a preview, a reviewer, an influx',
    'agent.gitops.project_info_cache_ttl, agent.gitops.poll_period',
  ]
  const names = ['views', 'flux', 'known-tokens', 'gitops']
  t.strictSame(named(lines.join('\n'), 'x.ts', names), [
    'x.ts:1 views',
    'x.ts:2 flux',
    'x.ts:3 known-tokens',
    'x.ts:5 gitops',
  ])
})
