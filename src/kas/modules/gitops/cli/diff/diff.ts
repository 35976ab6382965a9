import { errorText } from '../../../../../lib/errors.ts'
import { printable } from '../../../../../lib/printable.ts'
import { withoutNodeAdvice } from '../../../../../lib/tls-fault.ts'
import {
  type Command,
  type CommandContext,
  parsedArgs,
  refuseEmpty,
  textOption,
  UsageError,
} from '../../../../command/command.ts'
import { type Endpoint, endpointOf } from '../../../../command/endpoint.ts'
import { askState, type ShownSource } from '../state.ts'
import { askPreview } from './ask-preview.ts'
import { chosenSources } from './chosen-sources.ts'
import { type Format, formats, printResults } from './print-results.ts'
import { historyText, projectPath, topFolder } from './repository.ts'
import { notComparedCode, type SourceResult, worstCode } from './source-result.ts'
import { readWorkTree, type WorkTree, workTreeTexts } from './work-tree.ts'

const usage = 'diff [DIR] [--source SOURCE]... [--format FORMAT] [--values] [--note] [--no-exit-code] [--agent ID]'

const help = `usage: kas ${usage}
  shows what the files of a repository would change in the cluster, before they are merged
  DIR                                 folder in the repository (default: .); all files that Git tracks there count,
                                      as they are in the work tree
  --source SOURCE                     compare with this source, by its name or id; more than once: with each of them
                                      (default: all sources of the repository's project)
  --format FORMAT                     text, ndjson, markdown or terraform (default: text); terraform is the report of
                                      GitLab that shows three numbers in the merge request
  --values                            show values of fields, of the objects that you may get
  --note                              write the result to the merge request too, as a note that later jobs edit; for a
                                      job of a merge request pipeline with GITLAB_TOKEN
  --no-exit-code                      exit with 0 if there are changes
  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
  Values of Secrets are never shown. Nothing is changed in the cluster.
  exit code: 0 nothing would change, 1 there are changes, 2 the command line is wrong,
             4 the change would be refused, or an object of it fails, 5 not compared;
             of several sources the worst: 5, 4, 1, 0
`

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  source: { type: 'string', multiple: true },
  format: { type: 'string' },
  values: { type: 'boolean' },
  note: { type: 'boolean' },
  'no-exit-code': { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

const hints = { output: 'the format is named by --format', o: 'the format is named by --format' }

/** Sources of one command. */
const maxSources = 100

/** `kas diff`: what a change would do to the cluster. */
export const diff: Command = { usage, options, run }

/** @throws UsageError */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true }, hints)
  const { io } = context
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  if (positionals.length > 1) throw new UsageError('name at most one folder')
  refuseEmpty(values, ['format'])
  const names = values.source ?? []
  if (names.includes('')) throw new UsageError('--source is empty: name a source, or leave the option out')
  const format = formatOf(textOption(values, 'format'))
  try {
    const top = await topFolder(positionals[0] ?? '.', io.env)
    const tree = await readWorkTree(top, io.env)
    const shown = io.env.CI ? { ...tree, untracked: 0 } : tree // jobs make files that are no part of a change
    for (const text of workTreeTexts(shown)) io.stderr.write(printable(`kas diff: ${text}`).concat('\n'))
    const endpoint = await endpointOf(values, context)
    const sources = await sourcesOf(endpoint, names, tree, context)
    const results: SourceResult[] = []
    for (const source of sources) results.push(await resultOf(endpoint, tree, source, values.values === true, context))
    printResults(results, format, io)
    if (values.note === true) {
      const { writeNotes } = await import('./note/write-notes.ts')
      await writeNotes(results, endpoint.agentId, context)
    }
    const code = worstCode(results)
    return code === 1 && values['no-exit-code'] === true ? 0 : code
  } catch (error) {
    if (error instanceof UsageError) throw error
    // 1 would say that there are changes
    io.stderr.write(printable(`kas diff: ${withoutNodeAdvice(errorText(error))}`).concat('\n'))
    return notComparedCode
  }
}

/** @throws UsageError */
function formatOf(given: string | undefined): Format {
  const format = formats.find((one) => one === (given ?? 'text'))
  if (!format) throw new UsageError(`--format ${given}: allowed is one of ${formats.join(', ')}`)
  return format
}

/** @throws Unreached, BadAnswer, KasRefused, UsageError, Error: a name is unknown, or the agent makes no previews */
async function sourcesOf(
  endpoint: Endpoint,
  names: readonly string[],
  { top }: WorkTree,
  { io }: CommandContext,
): Promise<readonly ShownSource[]> {
  const state = await askState(endpoint)
  if (state.agent === 'stock') throw new Error('the agent is GitLab’s own: it makes no previews. Install agentk of kas')
  if (state.agent === 'absent') throw new Error(state.away?.text ?? 'no pod of the agent is connected')
  const project = names.length > 0 ? undefined : await projectPath(top, io.env)
  const sources = chosenSources(state, names, project)
  if (sources.length > maxSources)
    throw new UsageError(`${sources.length} sources are too many at once: name some of them by --source`)
  return sources
}

/** A source that cannot be compared does not end the others. */
async function resultOf(
  endpoint: Endpoint,
  tree: WorkTree,
  { source }: ShownSource,
  values: boolean,
  { io }: CommandContext,
): Promise<SourceResult> {
  try {
    const preview = await askPreview(endpoint, tree, { source, values })
    return { source, preview, history: await historyText(tree.top, preview.end.commit, io.env) }
  } catch (error) {
    return { source, preview: { problem: withoutNodeAdvice(errorText(error)) } }
  }
}
