import { errorText } from '../../../../lib/errors.ts'
import { printable } from '../../../../lib/printable.ts'
import { withoutNodeAdvice } from '../../../../lib/tls-fault.ts'
import { askKas } from '../../../command/ask-kas.ts'
import { type Command, type CommandContext, parsedArgs, UsageError } from '../../../command/command.ts'
import { type Endpoint, endpointOf } from '../../../command/endpoint.ts'
import { dataText, outputHelp, outputHints, outputOptions, outputs, readPrinting } from '../../../command/output.ts'
import { placeText, Unreached } from '../../../command/reach/unreached.ts'
import { driftListData, exitCodeOf, readDrift, unknownCode } from './drift-list.ts'
import { requireSource } from './named-source.ts'
import { askState } from './state.ts'

const usage = 'gitops drift SOURCE [--scan] [--agent ID] [-o FORMAT]'

/** Time for an answer without, and with a scan. ms */
const answerMs = { known: 70_000, scan: 140_000 }

/** Lines of `kas gitops --help` about this command. */
export const driftHelp = `usage: kas ${usage}\n  shows what differs between Git and the cluster, field by field\n`

const wholeHelp = `${driftHelp}  SOURCE                              name or id, as kas gitops status shows it
  --scan                              compare each object of the source now, and not only those that are known to differ
  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
${outputHelp(outputs, 36)}  You see the objects that you may get. Values of Secrets are never shown.
  exit code: 0 nothing differs, 1 an object differs, 2 the command line is wrong,
             5 not known: not all could be compared, or it failed
`

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  scan: { type: 'boolean' },
  ...outputOptions,
  help: { type: 'boolean', short: 'h' },
} as const

/** `kas gitops drift`: what differs between Git and the cluster. */
export const drift: Command = { usage, name: 'gitops', options, outputs, run }

/** @throws UsageError */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true }, outputHints)
  const { io, clock } = context
  if (values.help) {
    io.stdout.write(wholeHelp)
    return 0
  }
  const [, name, ...more] = positionals
  if (name === undefined || more.length > 0) throw new UsageError('allowed is one source')
  const { output, hasHeaders } = readPrinting(values, outputs, io)
  const endpoint = await endpointOf(values, context)
  try {
    const found = await askDrift(endpoint, name, { isScan: values.scan === true })
    io.stdout.write(await dataText(driftListData(found, clock.now()), output, hasHeaders))
    if (found.problem !== '') io.stderr.write(printable(`kas gitops: ${found.problem}`).concat('\n'))
    return exitCodeOf(found)
  } catch (error) {
    // 1 would say that an object differs
    io.stderr.write(printable(`kas gitops: ${withoutNodeAdvice(errorText(error))}`).concat('\n'))
    return unknownCode
  }
}

/** @throws Unreached, BadAnswer, KasRefused, Error: no source is called so, or kas is too old */
async function askDrift(endpoint: Endpoint, name: string, { isScan }: { readonly isScan: boolean }) {
  const { source } = requireSource((await askState(endpoint)).sources, name)
  const path = `/gitops/diff?source=${encodeURIComponent(source)}&scan=${isScan}`
  const timeoutMs = isScan ? answerMs.scan : answerMs.known
  const answer = await askKas(endpoint, { method: 'GET', path, timeoutMs }).catch((cause: unknown) => {
    // kas has just answered for the status: it hands on a path that it does not know to the cluster
    if (!(cause instanceof Unreached) || cause.kind !== 'server') throw cause
    const text = `kas at ${placeText(endpoint)} is older than this command, and does not know gitops/diff: update kas`
    throw new Error(text, { cause })
  })
  return readDrift(answer)
}
