import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { tokenHash } from '../../../lib/token-hash.ts'
import type { Agent } from '../../agent.ts'
import { required, textOption, UsageError } from '../command.ts'
import type { CliContext } from '../directory-command.ts'
import { agentNamed, userNamed } from '../look-up.ts'
import { expiresOption } from '../token.ts'
import { KubeconfigFiles } from './kubeconfig-files.ts'
import { machineToken, TokenOnItsWay } from './machine-token.ts'
import { bearerOf, placesFor } from './places.ts'

/** @returns what goes to stdout. @throws UsageError, Error */
export async function addToKubeconfig(context: CliContext): Promise<string> {
  const { values, io, clock } = context
  const server = serverOption(context)
  const ca = textOption(values, 'ca')
  const caData = ca === undefined ? {} : { 'certificate-authority-data': (await readFile(ca)).toString('base64') }
  checkOptions(context)
  const files = await KubeconfigFiles.open(textOption(values, 'output'), io.env, clock)
  try {
    const agents = [namedAgent(context)]
    const caller = await callerOf(context, files)
    for (const agent of agents) addAgent(context, { agent, server, cluster: { server, ...caData }, files, caller })
    return await write(context, files, caller)
  } finally {
    await files.close()
  }
}

function checkOptions({ values }: CliContext): void {
  const isOfFile = textOption(values, 'token-file') !== undefined
  if (isOfFile === (textOption(values, 'user') !== undefined)) throw new UsageError('one of --user and --token-file')
  if (values.ci && !isOfFile) throw new UsageError('--ci goes with --token-file')
  for (const name of ['token-name', 'expires'] as const) {
    if (isOfFile && textOption(values, name) !== undefined) throw new UsageError(`--${name} goes with --user`)
  }
}

function serverOption({ values, io }: CliContext): string {
  const server = required(textOption(values, 'server'), '--server')
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol)) {
    throw new UsageError(`--server ${server}: allowed is a URL with https`)
  }
  if (server.startsWith('http:')) io.stderr.write('note: kubectl sends no token over http: put TLS in front\n')
  return server
}

function namedAgent({ values, directory }: CliContext): Agent {
  return agentNamed(directory, required(textOption(values, 'agent'), '--agent'), textOption(values, 'project'))
}

/** Who the kubeconfig lets in, and the token that is on its way there. */
interface Caller {
  readonly token: string
  readonly owner: string | undefined
  /** absent: the token is not of our making, or is printed */
  readonly onItsWay?: TokenOnItsWay | undefined
  readonly isNew?: boolean
}

async function callerOf(context: CliContext, files: KubeconfigFiles): Promise<Caller> {
  const { values, directory, clock, io } = context
  const file = textOption(values, 'token-file')
  if (file !== undefined) {
    const token = (await readFile(file, 'utf8')).trim()
    if (token === '' || /\s/.test(token)) throw new UsageError(`${file}: allowed is one token`)
    return { token, owner: ownerOf(directory, token) }
  }
  const { id, username } = userNamed(directory, required(textOption(values, 'user'), '--user'))
  const onItsWay = files.main.name === undefined ? undefined : new TokenOnItsWay(files.main.real, id)
  const held = files.entries('user').flatMap(({ value }) => bearerOf(value)?.token ?? [])
  const waiting = await onItsWay?.read()
  const name = textOption(values, 'token-name') ?? hostname()
  const wish = { user: { id, username }, name, expires: expiresOption(values, clock), now: clock.now() }
  const { token, isNew, replaced } = machineToken(directory, waiting === undefined ? held : [...held, waiting], wish)
  if (isNew && replaced > 0) {
    io.stderr.write(
      `note: the token ${name} of ${username} gives way to a new one: what holds the old one is let in no more (--token-name gives it one of its own)\n`,
    )
  }
  return { token, owner: `user ${username}`, onItsWay, isNew }
}

/** Undefined: the directory does not know it. Jobs' tokens come and go: each may take another's place. */
function ownerOf(directory: CliContext['directory'], token: string): string | undefined {
  const { userTokens, jobTokens } = directory.contents
  const hash = tokenHash(token)
  const user = userTokens.get(hash)?.owner
  return user ? `user ${user.username}` : jobTokens.has(hash) ? 'a job' : undefined
}

interface Addition {
  readonly agent: Agent
  readonly server: string
  readonly cluster: Readonly<Record<string, string>>
  readonly files: KubeconfigFiles
  readonly caller: Caller
}

function addAgent({ values, directory, io }: CliContext, { agent, server, cluster, files, caller }: Addition): void {
  const ofToken = (token: string) => ownerOf(directory, token)
  const wanted = { agent, server, owner: caller.owner, context: textOption(values, 'context') }
  const places = placesFor(wanted, { files, ownerOf: ofToken })
  const namespace = textOption(values, 'namespace')
  const isThere = files.find('context', places.context) !== undefined
  files.put('cluster', places.cluster, cluster)
  files.put('user', places.user, { token: `${values.ci ? 'ci' : 'pat'}:${agent.id}:${caller.token}` })
  files.put('context', places.context, {
    cluster: places.cluster,
    user: places.user,
    ...(namespace === undefined ? {} : { namespace }),
  })
  if (files.currentContext === '') files.main.currentContext = places.context
  if (files.isPrinted) return
  const use = files.currentContext === places.context ? 'it is the current one' : `kubectl --context ${places.context}`
  io.stderr.write(`context ${places.context} ${isThere ? 'is there' : 'is new'}: ${use}\n`)
}

/** The directory first: a kubeconfig with a token that is not known yet is of no use. */
async function write(context: CliContext, files: KubeconfigFiles, caller: Caller): Promise<string> {
  const { io } = context
  await commit(context, caller)
  if (files.isPrinted) return files.main.text
  const written = await files.write()
  await caller.onItsWay?.remove()
  for (const name of written) io.stderr.write(`kubeconfig written to ${name}\n`)
  for (const line of await files.warnings()) io.stderr.write(`${line}\n`)
  return ''
}

async function commit(context: CliContext, { token, isNew, onItsWay }: Caller): Promise<void> {
  if (!isNew) return await context.commit()
  await onItsWay?.keep(token)
  try {
    await context.commit()
  } catch (error) {
    await onItsWay?.remove()
    throw error
  }
}
