#!/usr/bin/env -S MALLOC_ARENA_MAX=1 node --max-semi-space-size=4
import { launch } from './launch.mjs'

await launch('agentk')
