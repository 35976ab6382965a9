import { get } from './get.ts'
import { health } from './health.ts'
import { tree } from './tree.ts'
import type { ViewsCommand } from './views-command.ts'

/** By the word after `kas`. */
export const viewsCommands: Readonly<Record<'tree' | 'get' | 'health', ViewsCommand>> = { tree, get, health }
