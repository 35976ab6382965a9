import { kindWord } from '../../../../kubernetes/kind-words.ts'
import { UsageError } from '../../../command/command.ts'
import { outputs } from '../../../command/output.ts'
import { addContextNamespace, isClusterScoped, readAsked } from './asked.ts'
import { eventNames, printEvents } from './events.ts'
import { listText, namesOf } from './list-text.ts'
import { listItems, objectView } from './output/program-view.ts'
import { printView } from './print-view.ts'
import {
  doneOrFailed,
  nothingWrong,
  problemsHelp,
  problemsOption,
  viewsCommand,
  watchHelp,
  watchOption,
} from './views-command.ts'

const listLimit = 500

/** `kas get` */
export const get = viewsCommand({
  usage:
    'get KIND[,KIND...] [NAME...] | KIND/NAME... [-n NAMESPACE | -A] [-l SELECTOR] [--sort name|age|since] [--problems] [--watch] [-o FORMAT]',
  summary: 'lists objects with their health and its cause, the worst first; get events: the latest',
  help: `  --sort ORDER                        by name, age or since, the time of the verdict (default: the worst first)
${problemsHelp}${watchHelp}${doneOrFailed}`,
  options: { sort: { type: 'string' }, ...problemsOption, ...watchOption },
  outputs,
  run(context) {
    const { positionals } = context
    const values = addContextNamespace(context.values, context.namespace)
    if (positionals.length === 0) throw new UsageError('KIND is missing, such as pods or deployments.apps')
    if (positionals.length === 1 && eventNames.has((positionals[0] as string).toLowerCase()))
      return printEvents({ ...context, values })
    const asked = readAsked(positionals, values)
    const areClusterScoped = asked.words.length > 0 && asked.words.every(isClusterScoped)
    const areMixed = asked.words.some(isClusterScoped) && !areClusterScoped
    const columns = {
      namespace: asked.namespaces?.length === 1 ? areMixed : !areClusterScoped,
      kind: asked.words.length !== 1 || kindWord(asked.words[0] as string).builtIn.length > 1,
      wide: context.output === 'wide',
    }
    return printView(context, {
      query: { view: 'list', ...asked.query, limit: listLimit },
      asked,
      opens: () => false,
      text: (model, layout) => listText(model, layout, columns),
      program: objectView({ items: listItems, counts: ({ counts }) => counts, names: namesOf }),
      nothing: asked.query.filter
        ? nothingWrong
        : `no ${asked.words.join(', ')} found${asked.namespaces ? ` in ${asked.namespaces.join(', ')}` : ''}`,
    })
  },
})
