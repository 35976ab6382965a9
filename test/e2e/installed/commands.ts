import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { foreignEnvironment } from '../../../dev/installed/installation.ts'
import type { Programs } from '../../../dev/start/local-programs.ts'
import { agent, files, replicaFiles, replicaName } from '../../../dev/start/settings.ts'

/**
 * Commands to play. `few`: one that answers, one that is refused, and those that others need. `each`: all. `and no
 * other`: the help, which is the same in each installation, names no others.
 */
export type Extent = 'few' | 'each' | 'each, and no other'

export interface CommandsOptions {
  readonly programs: Programs
  readonly version: string
  /** a state folder whose stack runs */
  readonly folder: string
  /** socket of a replica */
  readonly socket: string
  /** address of kas, for kubeconfigs */
  readonly server: string
  readonly extent: Extent
}

/** Plays a command that answers. @returns its output */
type Kas = (line: string, ...args: string[]) => Promise<string>

/**
 * Plays subcommands of kas, and the `--help` and `--version` of both programs.
 *
 * @returns the token that a new user of the directory file sends after `Bearer `
 */
export async function playCommands(t: Test, options: CommandsOptions): Promise<string> {
  const { programs, version, folder, socket, server, extent } = options
  const played = new Set<string>()
  const run = (command: readonly string[], args: readonly string[]) => {
    const [file = '', ...rest] = [...command, ...args]
    const env = { ...foreignEnvironment(), ...programs.environment, KAS_DIRECTORY_FILE: join(folder, files.directory) }
    return new Promise<{ code: number; out: string; err: string }>((resolve) => {
      execFile(file, rest, { env, cwd: folder }, (error, out, err) =>
        resolve({ code: error ? Number(error.code ?? -1) : 0, out, err }),
      )
    })
  }
  const say = async (command: readonly string[], args: readonly string[]) => {
    const { code, out, err } = await run(command, args)
    t.equal(code, 0, `${args.join(' ')}: ${err}`)
    return out
  }
  const kas: Kas = (line, ...args) => {
    played.add(line)
    return say(programs.kas, [...line.split(' '), ...args])
  }
  /** @returns the reason of the refusal */
  const refused = async (line: string, ...args: string[]) => await refusedWith(1, line, ...args)
  /** @returns the reason, of a command whose exit code 1 has another meaning */
  const refusedWith = async (exitCode: number, line: string, ...args: string[]) => {
    played.add(line)
    const { code, err } = await run(programs.kas, [...line.split(' '), ...args])
    t.equal(code, exitCode, `${line}: ${err}`)
    return err
  }

  for (const name of ['kas', 'agentk'] as const) {
    t.equal(await say(programs[name], ['--version']), `${name} ${version}\n`)
    t.match(await say(programs[name], ['--help']), new RegExp(`usage[\\s\\S]*${name}`, 'i'))
  }
  t.match(await kas('user create', 'grace', '--role', `${agent.project.path}=maintainer`), /^\S+\n$/)
  const kubeconfig = await kas('kubeconfig', '--agent', agent.name, '--server', server, '--user', 'grace')
  const [, credential = ''] = /token: (pat:\S+)/.exec(kubeconfig) ?? []
  t.match(credential, new RegExp(`^pat:${agent.id}:`), kubeconfig)
  t.match(await kas('status', '--socket', socket), /kas-2/)
  const asUser = ['--kubeconfig', join(folder, files.kubeconfig)]
  for (const word of ['forget', 'approve', 'pause', 'resume', 'resync']) {
    t.match(await refused(`gitops ${word}`, 'shop', ...asUser), /^kas gitops: no source shop is known/)
  }
  t.match(await refusedWith(5, 'gitops drift', 'shop', ...asUser), /^kas gitops: no source shop is known/)
  t.match(await refusedWith(2, 'diff', '/', ...asUser), /^kas diff: \/ is in no work tree of Git/)
  const hold = ['-n', 'demo', '--for', '1h', ...asUser]
  t.match(await refused('gitops hold', 'thing/none', ...hold), /^kas gitops: the cluster has no kind thing:/)
  if (extent === 'few') return credential
  await playDirectory(t, kas, folder)
  t.match(await kas('route', '--agent', String(agent.id), '--socket', socket), /kas-\d/)
  t.match(await kas('tree', ...asUser), /^✓ demo\/Pod\/clock {2}Running/m)
  t.match(await kas('get', 'Pod', ...asUser), /^✓ demo +clock +1\/1 +\d+s +Running/m)
  t.match(await kas('health', ...asUser), /^✓ healthy/)
  t.match(await kas('agents', ...asUser), new RegExp(`\\b${agent.name}\\b`))
  const entries = (lines: string) => new Set(lines.match(/(?<="entry":")kas-\d/g))
  const all = await kas('log', '-o', 'json', '--socket', socket)
  t.ok(entries(all).size > 1, 'lines of several replicas')
  const own = await kas('log', '-o', 'json', ...asUser)
  t.ok(entries(own).size > 1, 'own lines of several replicas')
  t.notMatch(own, /"caller":(?!\{[^}]*"name":"ada")/, 'no lines of others')
  t.match(await kas('sessions', '--socket', socket), /^(nothing lasts$|ID +FOR )/m)
  t.match(await kas('sessions end', '--user', 'grace', '--socket', socket), /^REPLICA +ENDED\n/)
  t.equal(await kas('views role', ...asUser), '')
  t.match(await kas('gitops status', ...asUser), /./)
  t.match(await refusedWith(5, 'gitops wait', ...asUser), /the configuration names no source/)
  t.match(await kas('completion bash'), /^complete /m)
  const ofReplica = ['--configuration-file', join(folder, replicaFiles(replicaName(0)).configuration)]
  t.match(await kas('check-config', ...ofReplica), /can be used/)
  t.match(await kas('doctor', ...ofReplica), /^ok +replicas +\S+: it is ready$/m)
  if (extent === 'each') return credential
  t.strictSame([...played].sort(), await commandsOf((args) => say(programs.kas, args)), 'all that there are')
  return credential
}

/** Plays the commands that write and read the directory file. */
async function playDirectory(t: Test, kas: Kas, folder: string): Promise<void> {
  const repository = join(folder, 'other.git')
  await mkdir(repository)
  t.match(await kas('agent create', 'other', '--project', 'demo/other', '--git', repository), /^glagent-\S+\n$/)
  t.match(await kas('agent list'), /\bother\b/)
  t.match(await kas('agent rotate', 'other'), /^glagent-\S+\n$/)
  t.match(await kas('agent show', 'other'), /demo\/other/)
  t.match(await kas('user list'), /\bgrace\b/)
  t.match(await kas('user show', 'grace'), /maintainer/)
  t.match(await kas('user create', 'heidi'), /^\S+\n$/)
  t.match(await kas('user rotate', 'heidi'), /^\S+\n$/)
  await kas('user delete', 'heidi')
  const hashOf = (token: string) => hash('sha256', token.trim())
  const token = await kas('token create', '--agent', 'other')
  t.match(token, /^glagent-\S+\n$/)
  t.match(await kas('token list', '--agent', 'other'), /other/)
  t.match(await kas('token show', hashOf(token)), /other/)
  const [next, last] = [await kas('token rotate', hashOf(token)), await kas('token create', '--agent', 'other')]
  t.match(next, /^glagent-\S+\n$/)
  t.equal(await kas('token revoke', hashOf(next)), '')
  t.equal(await kas('token delete', hashOf(last)), '')
  await kas('agent delete', 'other')
}

/** Commands of kas, from its help and that of each word in it. */
async function commandsOf(ask: (args: string[]) => Promise<string>): Promise<string[]> {
  const words = [...(await ask(['--help'])).matchAll(/^ +kas ([a-z][a-z|-]*) /gm)].flatMap(([, some = '']) =>
    some.split('|'),
  )
  const helps = await Promise.all(words.map((word) => ask([word, '--help'])))
  const names = helps.flatMap((help) => [...help.matchAll(/^usage: kas ((?:[a-z]+ )?[a-z][a-z-]*)/gm)])
  return [...new Set(names.map(([, name = '']) => name))].sort()
}
