import { readFile } from 'node:fs/promises'
import { required, textOption, UsageError } from './command.ts'
import type { CliContext, Command } from './directory-command.ts'
import { agentNamed, userNamed } from './look-up.ts'
import { newToken } from './token.ts'
import { writeAtomically } from './write-atomically.ts'

/** `kas kubeconfig` */
export const kubeconfig: Command = {
  usage:
    'kubeconfig --agent NAME [--project PATH] --server URL [--ca FILE] [--namespace NAME] (--user NAME [--expires DATE] | --token-file FILE [--ci]) [--output FILE]',
  summary: 'prints a kubeconfig, with a new token of the user or the one in the file',
  options: {
    agent: { type: 'string' },
    project: { type: 'string' },
    server: { type: 'string' },
    ca: { type: 'string' },
    namespace: { type: 'string' },
    user: { type: 'string' },
    expires: { type: 'string' },
    'token-file': { type: 'string' },
    ci: { type: 'boolean' },
    output: { type: 'string' },
  },
  positionals: 0,
  async run(context) {
    const { values, directory, io } = context
    const agent = agentNamed(directory, required(textOption(values, 'agent'), '--agent'), textOption(values, 'project'))
    const server = serverOption(context)
    const ca = textOption(values, 'ca')
    const caData = ca === undefined ? {} : { 'certificate-authority-data': (await readFile(ca)).toString('base64') }
    const namespace = textOption(values, 'namespace')
    const target = { cluster: 'gitlab', user: `agent:${agent.id}`, ...(namespace === undefined ? {} : { namespace }) }
    const name = `${agent.project.path}:${agent.name}` // as CI jobs are given it (doc/reference/gitlab-contract.md 4.1)
    const token = `${values.ci ? 'ci' : 'pat'}:${agent.id}:${await tokenFor(context)}`
    const { default: yaml } = await import('yaml') // for a help nothing is loaded
    const text = yaml.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'gitlab', cluster: { server, ...caData } }],
      users: [{ name: `agent:${agent.id}`, user: { token } }],
      contexts: [{ name, context: target }],
      'current-context': name,
    })
    const output = textOption(values, 'output')
    if (output === undefined) return text
    await writeAtomically(output, text, { isSecret: true })
    io.stderr.write(`kubeconfig written to ${output}\n`)
    return ''
  },
}

function serverOption({ values, io }: CliContext): string {
  const server = required(textOption(values, 'server'), '--server')
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol)) {
    throw new UsageError(`--server ${server}: allowed is a URL with https`)
  }
  if (server.startsWith('http:')) io.stderr.write('note: kubectl sends no token over http: put TLS in front\n')
  return server
}

async function tokenFor({ values, directory }: CliContext): Promise<string> {
  const file = textOption(values, 'token-file')
  const username = textOption(values, 'user')
  if ((file === undefined) === (username === undefined)) throw new UsageError('one of --user and --token-file')
  if (username !== undefined) {
    if (values.ci) throw new UsageError('--ci goes with --token-file')
    const { token, entry } = newToken('user', textOption(values, 'expires'))
    directory.addToken('users', userNamed(directory, username).id, entry)
    return token
  }
  const token = (await readFile(file as string, 'utf8')).trim()
  if (token === '' || /\s/.test(token)) throw new UsageError(`${file}: allowed is one token`)
  return token
}
