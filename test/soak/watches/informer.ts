import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Warden } from '../../../dev/control-plane/warden.ts'
import { buildGoProgram, withoutGo } from '../../support/go-program.ts'
import type { KubectlPlace } from '../exactly-once/kubectl-call.ts'
import { counterName } from './counter.ts'
import { Seen } from './seen.ts'

/** A client-go informer that was built, or the reason why there is none. */
export type InformerProgram = { readonly program: string } | { readonly missing: string }

/** Builds it, unless it was built before. */
export async function informerProgram(): Promise<InformerProgram> {
  if (withoutGo) return { missing: withoutGo }
  try {
    return { program: await buildGoProgram('informer-go') }
  } catch (error) {
    const [line = ''] = String((error as { stderr?: string }).stderr || (error as Error).message).split('\n')
    return { missing: `needs client-go: ${line}` }
  }
}

/** Records its watch and its requests: the informer begins again by itself. */
export function watchByInformer(
  program: string,
  { kubeconfig, namespace }: Pick<KubectlPlace, 'kubeconfig' | 'namespace'>,
  { warden, signal }: { warden: Warden; signal: AbortSignal },
): Seen {
  const seen = new Seen('a client-go informer')
  const { PATH = '', HOME = '' } = process.env
  const args = [`--kubeconfig=${kubeconfig}`, `--namespace=${namespace}`, `--name=${counterName}`]
  const child = spawn(program, args, { env: { PATH, HOME, ...warden.environment }, stdio: 'pipe' })
  let said = ''
  child.stderr.on('data', (chunk) => {
    said = `${said}${chunk}`.slice(-1000)
  })
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { event, holder, lists, message } = JSON.parse(line)
    if (event === 'saw') seen.saw(Number(holder))
    else if (event === 'watch') seen.watches++
    if (event === 'list' || lists) seen.lists++
    if (event === 'strange') seen.ended(message)
  })
  child.once('error', (error) => seen.ended(String(error)))
  child.once('close', (code) => seen.ended(`exit status ${code}: ${said}`))
  signal.addEventListener('abort', () => child.kill(), { once: true })
  return seen
}
