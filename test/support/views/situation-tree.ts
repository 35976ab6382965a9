import { parseArgs } from 'node:util'
import type { OpenView, ViewOut } from '../../../src/agentk/modules/views/view/view-host.ts'
import { type Asked, readAsked } from '../../../src/kas/modules/views/cli/asked.ts'
import { cut } from '../../../src/kas/modules/views/cli/lines.ts'
import { readUpdate } from '../../../src/kas/modules/views/cli/received.ts'
import { childrenLimit, ShownView } from '../../../src/kas/modules/views/cli/shown-view.ts'
import { opens, treeOptions, treeQuery } from '../../../src/kas/modules/views/cli/tree.ts'
import { treeText } from '../../../src/kas/modules/views/cli/tree-text.ts'
import { type Layout, Paint } from '../../../src/kas/modules/views/cli/verdict-text.ts'
import { kindOf } from '../../../src/kubernetes/object.ts'
import type { Situation } from '../../vectors/situations.ts'
import { ClusterStage, rulesOf } from './situation-view.ts'
import { user } from './view-stage.ts'

/** Number of updates, after which all open nodes are complete. */
const passes = 12

/** Returns the output of `kas tree` for a situation and a user who may list all. @param argv - words after `tree` */
export async function treeOf(situation: Situation, argv: readonly string[], columns: number): Promise<string> {
  const now = Date.parse(situation.now)
  const stage = new ClusterStage(now, await rulesOf([...new Set(situation.objects.map(kindOf))]))
  for (const object of situation.objects) stage.put(object)
  for (const event of situation.events) stage.event(event)
  stage.listed()
  await stage.pass()
  const text = await shownTree(stage, argv, { now, columns })
  stage.close()
  return text
}

/** Returns the output for a cluster's stage. */
export async function shownTree(
  stage: ClusterStage,
  argv: readonly string[],
  layout: Pick<Layout, 'now' | 'columns'>,
): Promise<string> {
  stage.mayNotList('viewer', [])
  const asked = readArgv(argv)
  const client = new CommandClient()
  const query = Buffer.from(JSON.stringify(treeQuery(asked)))
  client.view = stage.host.open({ caller: user('viewer'), viewer: { key: 'viewer' }, query }, client)
  for (let i = 0; i < passes; i++) await stage.pass(100)
  client.view.close()
  const text = treeText(client.shown, { paint: new Paint(false), isVerbose: false, ...layout }, treeOptions(asked))
  return text.replaceAll(/[^\n]+/g, (line) => cut(line, layout.columns)) // as a screen does
}

/** Parses words and namespaces as `kas tree` does. */
function readArgv(argv: readonly string[]): Asked {
  const options = { namespace: { type: 'string', short: 'n', multiple: true } } as const
  const { values, positionals } = parseArgs({ args: [...argv], options, allowPositionals: true })
  return readAsked(positionals, values)
}

/** A client as that of `kas tree`, without a socket. */
class CommandClient implements ViewOut {
  readonly shown = new ShownView()
  view: OpenView | undefined
  readonly #asked = new Set<string>()

  update(seq: number, json: Uint8Array): void {
    this.shown.apply(readUpdate(Buffer.from(json).toString()))
    for (const node of this.shown.pagesToAsk(opens)) {
      if (this.#asked.has(node)) continue
      this.#asked.add(node)
      this.view?.page(node, childrenLimit)
    }
    this.view?.taken(seq)
  }

  ended(error: Error): void {
    throw error
  }
}
