#!/usr/bin/env -S node --max-semi-space-size=4 --heap-growing-percent=50
import { launch } from './launch.mjs'

await launch('agentk')
